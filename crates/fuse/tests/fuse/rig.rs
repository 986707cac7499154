//! A file system of this machine, and mounts of it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fulmar_client::{Address, ClientNode, FileSystem, MountOptions, SessionOptions, blocking};
use fulmar_fuse::{Mount, Options, RequestCounts};
use fulmar_lnet_wire::Nid;
use fulmar_net::{NiOptions, Node, Options as NodeOptions, Runtime};
use fulmar_rpc::import::TargetKind;
use fulmar_server::{Label, ServeOptions, Serving, TargetLabel};
use fulmar_socklnd::AcceptMode;

const PORT: u16 = 9974;
/// Longer than anything takes that works.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Targets that are served from directories, and the mounts.
pub(crate) struct Rig {
    address: Address,
    scratch: PathBuf,
    options: ServeOptions,
    serving: Option<Serving>,
    server: Node,
    runtime: Runtime,
    mounts: Vec<(Mount, Node)>,
    file_systems: Vec<FileSystem>,
}

impl Rig {
    /// Serves a file system with two OSTs; `None`, with a NOT RUN line, where nothing can be mounted.
    pub(crate) fn start(name: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            let _ = writeln!(
                std::io::stderr(),
                "\nNOT RUN: mounts: they need root and /dev/fuse: run them with sudo"
            );
            return None;
        }
        let scratch = format!("fulmar-fuse-{name}-{}", std::process::id());
        let scratch = std::env::temp_dir().join(scratch);
        std::fs::create_dir_all(&scratch).unwrap();
        let runtime = Runtime::new(Some(2)).unwrap();
        let (server, nid) = node(&runtime);
        let address: Address = format!("{nid}:/lv").parse().unwrap();
        let label = |kind, index| TargetLabel { kind, index, address: address.clone() };
        let mut directories = vec![scratch.join("mdt")];
        fulmar_server::format_both(&directories[0], &label(TargetKind::Mdt, 0)).unwrap();
        for index in 0..2 {
            let directory = scratch.join(format!("ost{index}"));
            let label = Label::Target(label(TargetKind::Ost, index));
            fulmar_server::format(&directory, &label).unwrap();
            directories.push(directory);
        }
        let options = ServeOptions { directories, nids: vec![nid], port: PORT };
        let serving = Some(Serving::start(&server, &options).unwrap());
        let (mounts, file_systems) = (vec![], vec![]);
        Some(Self { address, scratch, options, serving, server, runtime, mounts, file_systems })
    }

    /// Mounts the file system on a node of its own, and returns where.
    pub(crate) fn mount(&mut self, options: &str) -> PathBuf {
        let (node, own) = node(&self.runtime);
        let settings = SessionOptions { interface: None, port: PORT, timeout: TIMEOUT };
        let client = ClientNode::on(&node, &[own], settings).unwrap();
        // The targets may not have registered yet.
        let begun = Instant::now();
        let file_system = loop {
            match blocking::wait(client.mount(&self.address, MountOptions::default())) {
                Ok(mounted) => break mounted,
                Err(error) => assert!(begun.elapsed() < TIMEOUT, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        self.file_systems.push(file_system.clone());
        let mountpoint = self.scratch.join(format!("mount{}", self.mounts.len()));
        std::fs::create_dir(&mountpoint).unwrap();
        let mut parsed = Options::default();
        parsed.add(options).unwrap();
        let (mounted, _) = Mount::start(file_system, &self.address, &mountpoint, &parsed).unwrap();
        self.mounts.push((mounted, node));
        mountpoint
    }

    /// Returns what a mount is one of.
    pub(crate) fn file_system(&self, mount: usize) -> &FileSystem {
        &self.file_systems[mount]
    }

    /// Returns what the kernel has asked a mount.
    pub(crate) fn asked(&self, mount: usize) -> RequestCounts {
        self.mounts[mount].0.asked()
    }

    /// Returns how many files the kernel knows of a mount.
    pub(crate) fn known(&self, mount: usize) -> usize {
        self.mounts[mount].0.known()
    }

    /// Returns whether the kernel keeps names.
    pub(crate) fn keeps_names(&self, mount: usize) -> bool {
        self.mounts[mount].0.keeps_names()
    }

    /// Returns whether the kernel keeps the data of files.
    pub(crate) fn keeps_data(&self, mount: usize) -> bool {
        self.mounts[mount].0.keeps_data()
    }

    /// Stops the targets, and serves all but the last OST again.
    pub(crate) fn restart_without_an_ost(&mut self) {
        self.serving.take().unwrap().stop();
        let mut options = self.options.clone();
        options.directories.pop();
        self.serving = Some(Serving::start(&self.server, &options).unwrap());
    }

    /// Sets a parameter of the targets.
    pub(crate) fn set(&self, name: &str, value: &str) {
        self.serving.as_ref().unwrap().parameters().set(name, value).unwrap();
    }

    /// Stops the targets.
    pub(crate) fn stop_serving(&mut self) {
        self.serving.take().unwrap().stop();
    }

    /// Serves the targets again.
    pub(crate) fn serve(&mut self) {
        if let Some(some) = self.serving.take() {
            some.stop();
        }
        self.serving = Some(Serving::start(&self.server, &self.options).unwrap());
    }

    /// Ends a mount. Those after it get its number.
    pub(crate) fn unmount(&mut self, mount: usize) {
        self.file_systems.remove(mount);
        let (mounted, node) = self.mounts.remove(mount);
        mounted.unmount();
        node.stop();
    }

    /// Ends all mounts and the servers: nothing is mounted any more, even if files are open.
    pub(crate) fn stop(mut self) {
        self.file_systems.clear();
        for (mounted, node) in self.mounts.drain(..) {
            mounted.unmount();
            node.stop();
        }
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains(self.scratch.to_str().unwrap()), "{mounts}");
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.file_systems.clear();
        for (mounted, node) in self.mounts.drain(..) {
            drop(mounted);
            node.stop();
        }
        if let Some(serving) = self.serving.take() {
            serving.stop();
        }
        self.server.stop();
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

/// Returns the values of the parameters of a mount whose names end so.
pub(crate) fn parameters(top: &Path, end: &str) -> Vec<String> {
    let value = |name: &str| {
        let mut value = vec![0; 64 << 10];
        let len = rustix::fs::getxattr(top, name, &mut value[..]).unwrap();
        String::from_utf8(value[..len].to_vec()).unwrap()
    };
    let mut names: Vec<String> = Vec::new();
    loop {
        let more = value(&format!("lustre.parameters.{}", names.len()));
        if more.is_empty() {
            break;
        }
        names.extend(more.lines().map(str::to_owned));
    }
    names.retain(|name| name.ends_with(end));
    names.iter().map(|name| value(&format!("lustre.parameter.{name}"))).collect()
}

/// Starts a node at a loopback address that no other test has.
fn node(runtime: &Runtime) -> (Node, Nid) {
    let address = fulmar_loopback::address().into();
    let mut options = NodeOptions::default();
    options.config.socklnd.accept = AcceptMode::All;
    options.config.socklnd.accept_port = PORT;
    options.nis.push(NiOptions::at(address));
    let nid = format!("{address}@tcp").parse().unwrap();
    (Node::start(runtime, options).unwrap(), nid)
}
