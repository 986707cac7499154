//! Runs tools of the host and returns their output.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest time that a tool may run.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Most output of a tool that is kept, in bytes.
const OUTPUT_MAX: u64 = 1 << 20;

/// Runs a tool and returns what it printed; `None` if it is not installed, fails or takes too long.
pub fn output(program: &str, args: &[&str]) -> Option<String> {
    // A user's PATH may lack the directories of administrators' tools.
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
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if start.elapsed() < TIMEOUT => {
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
    fn output_is_none_for_a_tool_that_fails_or_is_not_installed() {
        assert_eq!(output("echo", &["a", "b"]).as_deref(), Some("a b\n"));
        assert_eq!(output("false", &[]), None);
        assert_eq!(output("fulmar-has-no-such-tool", &[]), None);
    }
}
