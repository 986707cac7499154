//! Tools of the host, whose output is evidence.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// No tool is waited for longer.
const PATIENCE: Duration = Duration::from_secs(5);
/// No more of what a tool prints is kept, in bytes.
const OUTPUT_MAX: u64 = 1 << 20;

/// Runs a tool and returns what it printed; `None` if it is not installed, fails or takes too long.
pub fn output(program: &str, args: &[&str]) -> Option<String> {
    // Where administrators' tools are is not always where users look.
    let path = std::env::var("PATH").unwrap_or_default();
    let mut child = Command::new(program)
        .args(args)
        .env("LC_ALL", "C")
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let out = child.stdout.take()?;
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = out.take(OUTPUT_MAX).read_to_end(&mut bytes);
        bytes
    });
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(2));
            }
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
        }
    };
    let bytes = reader.join().ok()?;
    status.filter(|status| status.success())?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_heard_and_one_that_fails_or_is_not_there_is_not() {
        assert_eq!(output("echo", &["a", "b"]).as_deref(), Some("a b\n"));
        assert_eq!(output("false", &[]), None);
        assert_eq!(output("fulmar-has-no-such-tool", &[]), None);
    }
}
