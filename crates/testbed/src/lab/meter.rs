//! Counters of the kernel: bytes of interfaces, CPU time and memory of processes.

use std::fs;
use std::time::Instant;

use super::{Host, Program};

/// Reads the counters of a host's interfaces.
#[derive(Debug)]
pub struct Meter {
    /// A process in the namespace, whose /proc shows the counters there.
    inside: Program,
}

/// The bytes of an interface.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct InterfaceBytes {
    pub at: Instant,
    pub received: u64,
    pub sent: u64,
}

impl Meter {
    /// Prepares to read the counters of a host.
    ///
    /// # Errors
    /// The error of the system.
    pub fn new(host: &Host) -> Result<Self, String> {
        let mut inside = Program::start(&mut host.command("cat".as_ref()))?;
        // Its answer shows that it is in the namespace.
        inside.write_line("there")?;
        inside.wait_for("there")?;
        Ok(Self { inside })
    }

    /// Returns the bytes of an interface.
    ///
    /// # Errors
    /// Fails if there is no such interface.
    pub fn read(&self, interface: &str) -> Result<InterfaceBytes, String> {
        let path = format!("/proc/{}/net/dev", self.inside.id());
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let (received, sent) =
            counters(&text, interface).ok_or_else(|| format!("{path} has no {interface}"))?;
        Ok(InterfaceBytes { at: Instant::now(), received, sent })
    }
}

/// Returns the bytes received and sent of an interface. See proc(5), `net/dev`.
fn counters(text: &str, interface: &str) -> Option<(u64, u64)> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'));
    let numbers: Vec<u64> = line?.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    Some((*numbers.first()?, *numbers.get(8)?))
}

/// Returns the CPU time of a process, user and system, in seconds.
///
/// # Errors
/// Fails if the process has ended.
pub fn cpu_seconds(process: u32) -> Result<f64, String> {
    times_from(&format!("/proc/{process}/stat"), UTIME)
}

/// Returns the CPU time of a process and of all that descend from it and have not ended, in seconds.
///
/// # Errors
/// Fails if the process has ended.
pub fn tree_cpu_seconds(process: u32) -> Result<f64, String> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").map_err(|error| format!("/proc: {error}"))?.flatten() {
        let id = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        // Others come and go.
        let parent = id.and_then(|id| Some((id, parent_of(id)?)));
        parents.extend(parent);
    }
    let mut sum = cpu_seconds(process)?;
    let mut left = vec![process];
    while let Some(parent) = left.pop() {
        for (child, _) in parents.iter().filter(|(_, of)| *of == parent) {
            sum += cpu_seconds(*child).unwrap_or_default();
            left.push(*child);
        }
    }
    Ok(sum)
}

fn parent_of(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}

/// Returns the CPU time of all children of this process after their wait, in seconds.
///
/// # Errors
/// Fails if /proc cannot be read.
pub fn children_cpu_seconds() -> Result<f64, String> {
    times_from("/proc/self/stat", CUTIME)
}

/// Field numbers of proc(5) `stat`: the user time, followed by the system time.
const UTIME: usize = 14;
const CUTIME: usize = 16;

/// Returns the sum of a time field and the next one, in seconds.
fn times_from(path: &str, field: usize) -> Result<f64, String> {
    let stat = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    // The second field is a name in parentheses and may contain spaces.
    let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').skip(field - 3).take(2));
    let ticks: Option<f64> = fields.and_then(|fields| fields.map(|n| n.parse::<f64>().ok()).sum());
    Ok(ticks.ok_or_else(|| format!("{path} has too few fields"))? / TICKS_PER_SECOND)
}

/// Returns the resident memory of a process in MiB.
///
/// # Errors
/// Fails if the process has ended.
pub fn resident_mib(process: u32) -> Result<f64, String> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = kib.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    Ok(kib.ok_or_else(|| format!("{path} has no VmRSS"))? / 1024.0)
}

/// Linux shows this unit to user space on every architecture that Rust supports.
const TICKS_PER_SECOND: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_the_name_of_the_interface() {
        let text = "Inter-|   Receive | Transmit\n face |bytes packets\n    \
                    lo:  5 1 0 0 0 0 0 0  6 1 0 0 0 0 0 0\n  \
                    eth1: 1200 9 0 0 0 0 0 0 3400 8 0 0 0 0 0 0\n";
        assert_eq!(counters(text, "eth1"), Some((1200, 3400)));
        assert_eq!(counters(text, "eth"), None);
    }

    #[test]
    fn the_time_of_grandchildren_is_counted() {
        let script =
            "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done; read _; :'";
        let mut command = std::process::Command::new("sh");
        let mut program = Program::start(command.args(["-c", &format!("{script}; :")])).unwrap();
        program.wait_for("done").unwrap();
        let (own, tree) = (cpu_seconds(program.id()), tree_cpu_seconds(program.id()));
        assert!(tree.unwrap() > own.unwrap());
        program.finish().unwrap();
    }

    #[test]
    fn this_process_has_memory_and_has_run() {
        let id = std::process::id();
        assert!(resident_mib(id).unwrap() > 0.1);
        assert!(cpu_seconds(id).unwrap() >= 0.0);
    }
}
