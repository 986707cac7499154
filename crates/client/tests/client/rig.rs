//! A file system of this machine: an MGS with an MDT, and OSTs, over sockets.

use std::path::PathBuf;
use std::time::Duration;

use fulmar_client::{Address, ClientNode, FileSystem, MountOptions, SessionOptions, blocking};
use fulmar_lnet_wire::Nid;
use fulmar_net::{NiOptions, Node, Options, Runtime};
use fulmar_rpc::import::TargetKind;
use fulmar_server::{Label, ServeOptions, Serving, TargetLabel, Unset};
use fulmar_socklnd::AcceptMode;

pub(crate) const PORT: u16 = 9973;
/// Longer than anything takes that works.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Targets that are served from directories, and nodes of clients.
pub(crate) struct Rig {
    pub(crate) address: Address,
    directories: Vec<PathBuf>,
    scratch: PathBuf,
    serving: Option<Serving>,
    server: Node,
    nid: Nid,
    runtime: Runtime,
}

impl Rig {
    /// Formats and serves a file system with so many OSTs.
    pub(crate) fn start(name: &str, osts: u16) -> Self {
        let name = format!("fulmar-client-{name}-{}", std::process::id());
        let scratch = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&scratch).unwrap();
        let runtime = Runtime::new(Some(2)).unwrap();
        let (server, nid) = node(&runtime);
        let address: Address = format!("{nid}:/lv").parse().unwrap();
        let label = |kind, index| TargetLabel { kind, index, address: address.clone() };
        let mdt = scratch.join("mdt");
        fulmar_server::format_both(&mdt, &label(TargetKind::Mdt, 0)).unwrap();
        let mut directories = vec![mdt];
        for index in 0..osts {
            let directory = scratch.join(format!("ost{index}"));
            let label = Label::Target(label(TargetKind::Ost, index));
            fulmar_server::format(&directory, &label).unwrap();
            directories.push(directory);
        }
        let serving = None;
        let mut this = Self { address, directories, scratch, serving, server, nid, runtime };
        this.serve();
        this
    }

    /// Serves the targets.
    pub(crate) fn serve(&mut self) {
        self.serve_these(self.directories.clone());
    }

    fn serve_these(&mut self, directories: Vec<PathBuf>) {
        let nids = vec![self.nid];
        let options = ServeOptions { directories, nids, port: PORT };
        self.serving = Some(Serving::start(&self.server, &options).unwrap());
    }

    /// Stops the targets, and serves them again.
    pub(crate) fn restart(&mut self) {
        self.serving.take().unwrap().stop();
        self.serve();
    }

    /// Sets parameters of the targets.
    pub(crate) fn set(&self, pattern: &str, value: &str) -> Result<Vec<String>, Unset> {
        self.serving.as_ref().unwrap().parameters().set(pattern, value)
    }

    /// Stops the targets.
    pub(crate) fn stop(&mut self) {
        self.serving.take().unwrap().stop();
    }

    /// Stops the targets, and serves all but one OST again.
    pub(crate) fn restart_without(&mut self, ost: usize) {
        self.stop();
        let mut directories = self.directories.clone();
        directories.remove(1 + ost);
        self.serve_these(directories);
    }

    /// Saves the MDT as it is, while it is not served.
    pub(crate) fn save_mdt(&mut self) {
        self.save(0);
    }

    /// Serves the MDT as it was saved: it has forgotten what happened since.
    pub(crate) fn restore_mdt(&mut self) {
        self.restore(0);
    }

    /// Saves an OST as it is, while it is not served.
    pub(crate) fn save_ost(&mut self, index: usize) {
        self.save(1 + index);
    }

    /// Serves an OST as it was saved: it has forgotten what happened since.
    pub(crate) fn restore_ost(&mut self, index: usize) {
        self.restore(1 + index);
    }

    fn save(&mut self, place: usize) {
        self.serving.take().unwrap().stop();
        copy(&self.directories[place], &self.scratch.join("saved"));
        self.serve();
    }

    fn restore(&mut self, place: usize) {
        self.serving.take().unwrap().stop();
        let target = &self.directories[place];
        std::fs::remove_dir_all(target).unwrap();
        copy(&self.scratch.join("saved"), target);
        self.serve();
    }

    /// Mounts the file system on a node of its own.
    pub(crate) fn mount(&self) -> FileSystem {
        self.mount_with(MountOptions::default())
    }

    pub(crate) fn mount_with(&self, options: MountOptions) -> FileSystem {
        let (node, own) = node(&self.runtime);
        let settings = SessionOptions { interface: None, port: PORT, timeout: TIMEOUT };
        let client = ClientNode::on(&node, &[own], settings).unwrap();
        // The targets may not have registered yet.
        let begun = std::time::Instant::now();
        loop {
            match blocking::wait(client.mount(&self.address, options.clone())) {
                Ok(mounted) => return mounted,
                Err(error) => assert!(begun.elapsed() < TIMEOUT, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.stop();
        }
        if !std::thread::panicking() {
            for part in self.directories.iter().flat_map(|one| fulmar_server::parts_of(one)) {
                let (_, report) = fulmar_server::verify(&part).unwrap();
                assert_eq!(report.damage, Vec::<String>::new());
            }
        }
        self.server.stop();
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

/// Copies a directory.
fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target)
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Starts a node at a loopback address that no other test has.
fn node(runtime: &Runtime) -> (Node, Nid) {
    let address = fulmar_loopback::address().into();
    let mut options = Options::default();
    options.config.socklnd.accept = AcceptMode::All;
    options.config.socklnd.accept_port = PORT;
    options.nis.push(NiOptions::at(address));
    let nid = format!("{address}@tcp").parse().unwrap();
    (Node::start(runtime, options).unwrap(), nid)
}
