//! `fulmar mount`: a file system as a directory of this machine.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_client::{
    Address, ClientNode, FileSystem, MountOptions, Process, SessionOptions, blocking,
};
use fulmar_control::config::NodeConfig;
use fulmar_daemon::{ClientSide, DebugLog};
use fulmar_fuse::{Mount, Options};
use fulmar_lnet_wire::socklnd::ACCEPT_PORT;
use futures_channel::oneshot::Receiver;
use tokio::signal::unix::{SignalKind, signal};

use crate::context::complain;
use crate::interop::interface;
use crate::node::read_source;

/// Mount a file system
///
/// Without a kernel module, by FUSE. The command ends when the file system is mounted; a process in the
/// background serves it until `umount`. A binary with the name mount.fulmar, such as a link
/// /sbin/mount.fulmar, serves `mount -t fulmar` and fstab.
///
/// What one client has done, the others see at once: the kernel keeps names and attributes only as long as locks
/// protect them. Mount it with lookupcache=none if something else is mounted in it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// NIDs of the MGS, name of the file system, and a directory of it: 10.0.0.1@tcp:/lustre/projects
    #[arg(value_name = "MGS:/NAME")]
    address: Address,
    /// Where to mount it
    #[arg(value_name = "DIR")]
    mountpoint: PathBuf,
    /// Options: ro, relatime, strictatime, noatime, sync, nodev, nosuid, noexec, flock, localflock, noflock, user_xattr,
    /// nouser_xattr, lookupcache=all, lookupcache=none, datacache=maps, datacache=none, datacache=locks (the kernel
    /// keeps the data of files that are open to be read only), flush=close (a close waits for the servers),
    /// allow_other, subdir=DIR, and config=FILE, a configuration of LNet as "fulmar node" takes it: networks of this client, and routes to servers behind routers
    #[arg(short, long = "options", value_name = "LIST")]
    options: Vec<String>,
    /// Stay in the foreground; SIGINT and SIGTERM unmount
    #[arg(long)]
    foreground: bool,
    /// Local interface, by name or address; by default the one with the route to the MGS
    #[arg(long, value_name = "IF|ADDR")]
    interface: Option<String>,
    /// How long to wait for the servers
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// TCP port of all nodes
    #[arg(long, default_value_t = ACCEPT_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Tell the process that has started this one when it is mounted
    #[arg(long, hide = true)]
    tell: bool,
    /// As `mount` passes them; they have no effect.
    #[arg(short = 's', hide = true)]
    sloppy: bool,
    #[arg(short = 'n', hide = true)]
    no_mtab: bool,
    #[arg(short = 'v', hide = true)]
    verbose: bool,
}

const EXAMPLES: &str = "Examples:
  fulmar mount 10.0.0.1@tcp:/lustre /mnt/lustre
  fulmar mount -o ro,noatime 10.0.0.1@tcp:/lustre/projects /mnt/projects
  fulmar mount -o config=/etc/lnet.conf 10.0.0.1@tcp:/lustre /mnt/lustre
  mount -t fulmar 10.0.0.1@tcp:/lustre /mnt/lustre      with a link /sbin/mount.fulmar";

/// What the process in the background writes when it has mounted.
const MOUNTED: &str = "mounted";

pub(crate) fn main(args: &Args) -> ExitCode {
    let done = if args.foreground {
        serve(args)
    } else {
        return start().unwrap_or_else(|error| failed(&error.to_string()));
    };
    done.map_or_else(|why| failed(&why), |()| ExitCode::SUCCESS)
}

/// Returns the command line of `fulmar mount` for one of `mount.fulmar`.
pub(crate) fn helper(args: &[OsString]) -> Vec<OsString> {
    let own = ["fulmar", "mount"].map(OsString::from);
    own.into_iter().chain(args.iter().skip(1).cloned()).collect()
}

fn failed(why: &str) -> ExitCode {
    complain(&format!("fulmar mount: {why}\n"));
    ExitCode::FAILURE
}

/// Starts this command in the background, and waits until it has mounted, or has said why not.
fn start() -> io::Result<ExitCode> {
    let mut child = Command::new(std::env::current_exe()?);
    let mut args: Vec<OsString> = std::env::args_os().collect();
    if args.get(1).is_none_or(|first| first != "mount") {
        args = helper(&args);
    }
    child.args(&args[1..]).args(["--foreground", "--tell"]);
    // The keys of the terminal are not for it, and its messages only until it has mounted.
    child.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = child.spawn()?;
    let errors = child.stderr.take();
    let relay = std::thread::spawn(move || {
        errors.map(|mut errors| io::copy(&mut errors, &mut io::stderr()))
    });
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    if line.trim_end() == MOUNTED {
        return Ok(ExitCode::SUCCESS);
    }
    let _ = relay.join();
    let status = child.wait()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Mounts, and serves until the end.
fn serve(args: &Args) -> Result<(), String> {
    let options = read_options(&args.options)?;
    let mut address = args.address.clone();
    if let Some(directory) = &options.subdirectory {
        let whole = format!("{address}/{directory}");
        address = whole.parse().map_err(|error| format!("{whole}: {error}"))?;
    }
    // A wrong directory is told before the servers are asked.
    prepare(&args.mountpoint)?;
    let log = Arc::new(Log(DebugLog::install()));
    let (node, _configured) = start_node(args, &options, &address)?;
    log.0.observe(node.admin());
    let with_log = MountOptions { process: Some(log), ..MountOptions::default() };
    let file_system = blocking::wait(node.mount(&address, with_log));
    let file_system = file_system.map_err(|error| format!("{address}: {error}"))?;
    let (mounted, end) = attach(file_system, &address, &args.mountpoint, &options)?;
    let told = if args.tell { tell() } else { Ok(()) };
    let waited = told.and_then(|()| until_the_end(end));
    mounted.unmount();
    waited.map_err(|error| error.to_string())
}

/// The debug log of this process, which `lctl` reaches by the mount.
#[derive(Debug)]
struct Log(DebugLog);

impl Process for Log {
    fn parameters(&self) -> &'static [&'static str] {
        DebugLog::PARAMETERS
    }

    fn read(&self, name: &str) -> Option<String> {
        self.0.read(name)
    }

    fn write(&self, name: &str, value: &str) -> Result<(), Errno> {
        self.0.write(name, value)
    }

    fn take_log(&self, room: usize) -> String {
        self.0.take(room)
    }
}

/// Starts the node of the mount; what else is returned keeps a configured one.
fn start_node(
    args: &Args,
    options: &Options,
    address: &Address,
) -> Result<(ClientNode, Option<ClientSide>), String> {
    let timeout = Duration::from_secs(args.timeout);
    let Some(file) = &options.config else {
        let interface = args.interface.as_deref().map(interface);
        let settings = SessionOptions { interface, port: args.port, timeout };
        let node = ClientNode::start(&address.mgs, settings);
        return Ok((node.map_err(|error| format!("{address}: {error}"))?, None));
    };
    if args.interface.is_some() || args.port != ACCEPT_PORT {
        return Err(
            "config=FILE has the interfaces and the port: leave out --interface and --port"
                .to_owned(),
        );
    }
    let (node, side) = configured(file, timeout)?;
    Ok((node, Some(side)))
}

/// Starts a client with the networks and routes of a configuration, which exist as long as what else is returned.
pub(crate) fn configured(
    file: &Path,
    timeout: Duration,
) -> Result<(ClientNode, ClientSide), String> {
    let config = NodeConfig::parse(&read_source(file)?).map_err(|error| error.to_string())?;
    let side = ClientSide::start(&config).map_err(|error| error.to_string())?;
    let settings = SessionOptions { interface: None, port: side.port, timeout };
    let node = ClientNode::on(&side.node, &side.nids, settings);
    Ok((node.map_err(|error| error.to_string())?, side))
}

/// Reads lists of options.
fn read_options(lists: &[String]) -> Result<Options, String> {
    let mut options = Options::default();
    for list in lists {
        options.add(list).map_err(|error| error.to_string())?;
    }
    Ok(options)
}

/// Looks whether something can be mounted on a directory, and removes what a mount whose process is gone has
/// left there.
pub(crate) fn prepare(mountpoint: &Path) -> Result<(), String> {
    let shown = mountpoint.display();
    fulmar_fuse::remove_dead(mountpoint)
        .map_err(|error| format!("{shown} is a mount whose process is gone: umount it: {error}"))?;
    if mountpoint.is_dir() { Ok(()) } else { Err(format!("{shown} is not a directory")) }
}

/// Attaches a file system to a directory.
pub(crate) fn attach(
    file_system: FileSystem,
    address: &Address,
    mountpoint: &Path,
    options: &Options,
) -> Result<(Mount, Receiver<()>), String> {
    Mount::start(file_system, address, mountpoint, options)
        .map_err(|error| format!("cannot mount on {}: {error}", mountpoint.display()))
}

/// Tells the process that waits. It ends, and takes the terminal along.
fn tell() -> io::Result<()> {
    let mut output = io::stdout();
    writeln!(output, "{MOUNTED}")?;
    output.flush()?;
    std::env::set_current_dir("/")
}

/// Waits for SIGINT, SIGTERM, or the end of the mount.
fn until_the_end(end: Receiver<()>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut int, mut term) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        tokio::select! { _ = int.recv() => {}, _ = term.recv() => {}, _ = end => {} }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{Command as Chosen, Fulmar};

    #[test]
    fn mount_calls_its_helper_with_its_own_words() {
        let called = "mount.fulmar 10.0.0.1@tcp:/lv/a /mnt -s -n -o rw,noatime -o _netdev";
        let words: Vec<OsString> = called.split(' ').map(OsString::from).collect();
        let Chosen::Mount(args) = Fulmar::parse_from(helper(&words)).command else {
            panic!("it is not a mount");
        };
        assert_eq!(args.address.to_string(), "10.0.0.1@tcp:/lv/a");
        assert_eq!(args.mountpoint, PathBuf::from("/mnt"));
        assert_eq!(
            (args.options.join(",").as_str(), args.foreground),
            ("rw,noatime,_netdev", false)
        );
    }
}
