//! `fulmar up`: a whole file system on this node.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use fulmar_client::{
    Address, AddressError, ClientNode, Error, FileSystem, MountOptions, SessionOptions,
};
use fulmar_fuse::Options;
use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::socklnd::ACCEPT_PORT;
use fulmar_net::Node;
use fulmar_rpc::import::TargetKind;
use fulmar_server::{StorageError, TargetLabel};
use futures_channel::oneshot;

use crate::context::complain;
use crate::{mount, node};

/// Run a file system on this node
///
/// The directory gets a management service, an MDT and OSTs when it is empty or new, and one node
/// serves them all. After an end of any kind the next start goes on with what is there. More OSTs
/// than there are extend the file system.
///
/// Exit status: as that of "fulmar node".
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
// That of the node's arguments has the same name.
#[group(skip)]
pub(crate) struct Args {
    /// Directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Name of a new file system: 1 to 8 letters, digits, _ or -
    #[arg(long, value_name = "NAME", default_value = "lustre")]
    fsname: String,
    /// Number of OSTs, if there are fewer
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=OSTS_MAX))]
    osts: u16,
    /// Mount it here too, on this directory
    #[arg(long, value_name = "DIR")]
    mount: Option<PathBuf>,
    #[command(flatten)]
    node: node::Args,
}

/// The most OSTs of one node: each has threads and a store.
const OSTS_MAX: i64 = 64;
/// How long the mount waits for the servers, which may have to recover.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Until when the targets of a new file system have registered, and how often one looks.
const REGISTERED: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "Examples:
  fulmar up /srv/lustre --networks 'tcp(eth0)'
  fulmar up /srv/lustre --osts 4
  fulmar up /srv/lustre --mount /mnt/lustre
  fulmar fsck /srv/lustre";

pub(crate) fn main(mut args: Args) -> ExitCode {
    if !args.node.only_checks()
        && let Err(error) = make(&args)
    {
        complain(&format!("fulmar up: {error}\n"));
        return ExitCode::FAILURE;
    }
    args.node.add_target(args.directory.clone());
    // The stores cannot be read by a second reader once the node serves them.
    let name = fulmar_server::file_system_of(&args.directory);
    let name = name.unwrap_or_else(|_| "FSNAME".to_owned());
    let announce = |nids: &[Nid]| println!("{}", welcome(&args.directory, &name, nids));
    let mount = |node: &Node, nids: &[Nid]| {
        let mountpoint = args.mount.as_deref()?;
        match OwnMount::start(node, nids, &name, mountpoint) {
            Ok(mount) => Some(mount),
            Err(why) => {
                not_mounted(&why);
                None
            }
        }
    };
    node::run_as(args.node, announce, mount)
}

fn not_mounted(why: &str) {
    complain(&format!("fulmar up: not mounted here, but served: {why}\n"));
}

/// The mount on the node of the servers, by a thread. It ends when this is dropped.
struct OwnMount {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl OwnMount {
    fn start(node: &Node, nids: &[Nid], name: &str, mountpoint: &Path) -> Result<Self, String> {
        let address: Address =
            format!("{}:/{name}", joined(nids)).parse().map_err(|error| format!("{error}"))?;
        mount::prepare(mountpoint)?;
        let settings = SessionOptions { interface: None, port: ACCEPT_PORT, timeout: TIMEOUT };
        let client = ClientNode::on(node, nids, settings).map_err(|error| error.to_string())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let (stop, stopped) = oneshot::channel();
        let mountpoint = mountpoint.to_owned();
        let run = move || runtime.block_on(keep_mounted(&client, &address, &mountpoint, stopped));
        let thread = Builder::new().name("mount".to_owned()).spawn(run);
        let thread = thread.map_err(|error| error.to_string())?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for OwnMount {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Mounts a file system, until `stopped` or an administrator says that it ends.
async fn keep_mounted(
    client: &ClientNode,
    address: &Address,
    mountpoint: &Path,
    mut stopped: oneshot::Receiver<()>,
) {
    let mounted = tokio::select! {
        mounted = mount_soon(client, address) => mounted,
        _ = &mut stopped => return,
    };
    let mounted = mounted.map_err(|error| error.to_string()).and_then(|file_system| {
        mount::attach(file_system, address, mountpoint, &Options::default())
    });
    match mounted {
        Ok((mounted, end)) => {
            tokio::select! { _ = end => {}, _ = stopped => {} }
            mounted.unmount();
        }
        Err(why) => not_mounted(&why),
    }
}

/// Mounts a file system whose targets may not have registered yet.
async fn mount_soon(client: &ClientNode, address: &Address) -> Result<FileSystem, Error> {
    let begun = Instant::now();
    loop {
        match client.mount(address, MountOptions::default()).await {
            Err(_) if begun.elapsed() < REGISTERED => tokio::time::sleep(PAUSE).await,
            result => return result,
        }
    }
}

/// Makes what is missing in the directory.
fn make(args: &Args) -> Result<(), String> {
    let refused = |error: StorageError| error.to_string();
    let is_whole = fulmar_server::parts_of(&args.directory).len() > 1;
    // What is damaged there is reported when it is served.
    let known = is_whole.then(|| fulmar_server::file_system_of(&args.directory).ok()).flatten();
    let name = known.as_ref().unwrap_or(&args.fsname);
    // The management service is on the same node, whatever the NIDs of that are.
    let address: Address = format!("{}:/{name}", Nid::LOOPBACK)
        .parse()
        .map_err(|error: AddressError| error.to_string())?;
    let mdt = TargetLabel { kind: TargetKind::Mdt, index: 0, address };
    // Without the name no OST is made.
    let osts = if is_whole && known.is_none() { 0 } else { args.osts };
    fulmar_server::complete(&args.directory, &mdt, osts).map_err(refused)
}

/// What an administrator wants to know.
fn welcome(directory: &Path, name: &str, nids: &[Nid]) -> String {
    let osts = fulmar_server::parts_of(directory).len() - 2;
    let plural = if osts == 1 { "" } else { "s" };
    let nids = joined(nids);
    format!(
        "{}: file system {name}, {osts} OST{plural}\n\
         on clients: fulmar mount {nids}:/{name} /mnt/{name}\n\
         with a kernel module: mount -t lustre -o flock {nids}:/{name} /mnt/{name}",
        directory.display()
    )
}

/// Returns NIDs as an address has them.
fn joined(nids: &[Nid]) -> String {
    nids.iter().map(Nid::to_string).collect::<Vec<_>>().join(",")
}
