//! Nodes that run on this machine with a control socket at a place of their own.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::Client;

/// Flags of a socket in `/proc/net/unix` that listens.
const LISTENS: u32 = 1 << 16;
/// The commands of `fulmar` that run a node.
const COMMANDS: [&str; 2] = ["node", "up"];

impl Client {
    /// Returns a client for the node at one of the default sockets, else for the only node that
    /// runs in this network namespace and whose processes this user may see.
    pub fn of_running() -> Self {
        let usual = Self::at_default();
        if UnixStream::connect(usual.path()).is_ok() {
            return usual;
        }
        match sockets(Path::new("/proc")).as_slice() {
            [only] if UnixStream::connect(only).is_ok() => Self::new(only),
            _ => usual,
        }
    }
}

/// Returns the control sockets of all nodes, by the process table at `proc`.
fn sockets(proc: &Path) -> Vec<PathBuf> {
    let held = held(proc);
    // "Num RefCount Protocol Flags Type St Inode Path"
    let text = fs::read_to_string(proc.join("net/unix")).unwrap_or_default();
    let listening = text.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let flags = u32::from_str_radix(words.get(3)?, 16).ok()?;
        let path = Path::new(words.get(7)?);
        let ours = held.contains(*words.get(6)?) && path.is_absolute();
        (flags & LISTENS != 0 && ours).then(|| path.to_owned())
    });
    listening.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the inodes of the sockets that nodes hold.
fn held(proc: &Path) -> BTreeSet<String> {
    let processes = fs::read_dir(proc).into_iter().flatten().flatten().map(|entry| entry.path());
    let nodes = processes.filter(|process| is_node(process));
    let descriptors =
        nodes.flat_map(|process| fs::read_dir(process.join("fd")).into_iter().flatten());
    let inodes = descriptors.flatten().filter_map(|descriptor| {
        let target = fs::read_link(descriptor.path()).ok()?;
        let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        Some(inode.to_owned())
    });
    inodes.collect()
}

fn is_node(process: &Path) -> bool {
    let words = fs::read(process.join("cmdline")).unwrap_or_default();
    let mut words = words.split(|byte| *byte == 0);
    let program = words.next().and_then(|word| std::str::from_utf8(word).ok());
    let is_ours = program.is_some_and(|word| Path::new(word).ends_with("fulmar"));
    is_ours && words.next().is_some_and(|word| COMMANDS.iter().any(|one| one.as_bytes() == word))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_sockets_of_nodes_are_found_and_those_of_others_are_not() {
        let proc = std::env::temp_dir().join(format!("fulmar-proc-{}", std::process::id()));
        let process = |pid: &str, words: &str, inode: &str| {
            let fd = proc.join(pid).join("fd");
            fs::create_dir_all(&fd).unwrap();
            fs::write(proc.join(pid).join("cmdline"), words).unwrap();
            symlink(format!("socket:[{inode}]"), fd.join("7")).unwrap();
        };
        process("10", "/usr/bin/fulmar\0node\0--control\0/a/c.sock\0", "501");
        process("11", "/usr/bin/fulmar\0mount\0x\0", "502");
        process("12", "/bin/other\0node\0", "503");
        process("13", "fulmar\0up\0", "504");
        fs::create_dir_all(proc.join("net")).unwrap();
        let table = "Num RefCount Protocol Flags Type St Inode Path\n\
            0: 00000002 00000000 00010000 0001 01 501 /a/c.sock\n\
            0: 00000003 00000000 00000000 0001 03 501 /a/c.sock\n\
            0: 00000002 00000000 00010000 0001 01 502 /a/mount.sock\n\
            0: 00000002 00000000 00010000 0001 01 503 /a/other.sock\n\
            0: 00000002 00000000 00010000 0001 01 504 @abstract\n\
            0: 00000002 00000000 00000000 0002 01 504\n";
        fs::write(proc.join("net/unix"), table).unwrap();
        let found = sockets(&proc);
        fs::remove_dir_all(&proc).unwrap();
        assert_eq!(found, [PathBuf::from("/a/c.sock")]);
        assert!(sockets(&proc).is_empty());
    }
}
