//! Servers that are killed under load, at random points, and started again: clients recover, nothing that was
//! answered is missing, and nothing that was told to be on disk was not.
//!
//! Each worker is a client of its own. It changes a directory and writes objects that only it uses, so it knows
//! what must be there: after each answer, and after a crash. A killed server's directory is copied and examined
//! before the server is started again; what the clients have is examined now and then, and in the end. Two more
//! clients hold open files and locks, and try whether these are still there.

mod check;
mod cluster;
mod holders;
mod requests;
mod worker;

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fulmar_base::{Errno, Rng};
use fulmar_client::blocking::wait;
use fulmar_client::{ClientNode, FileSystem, FsTarget, MountOptions, Session, SessionOptions};
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::{Fid, Uuid};
use fulmar_net::{NiOptions, Node, Options as NodeOptions, Runtime};
use fulmar_rpc::import::TargetKind;
use fulmar_socklnd::AcceptMode;

use cluster::Cluster;
pub use cluster::Net;
use holders::Holders;
use worker::{Worker, WorkerKnowledge};

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Options {
    /// The binary `fulmar`.
    pub fulmar: PathBuf,
    /// A directory for everything, which is made, and removed if all was well.
    pub scratch: PathBuf,
    /// Where the nodes are.
    pub net: Net,
    /// How often a server is killed.
    pub points: usize,
    /// What all random numbers follow from.
    pub seed: u64,
    /// What is wrong on purpose.
    pub fault: Fault,
}

/// What is wrong on purpose in a run, and must be found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// A killed server starts with an older state of its directory.
    RollBack,
    /// A killed server of this kind does not know one of its clients any more.
    Forget(TargetKind),
}

/// What was done.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How often each server was killed: that of the MDT, and those of the OSTs.
    pub kills: Vec<usize>,
    /// The requests that were answered.
    pub answered: u64,
    /// How often all open files and locks of a client were tried.
    pub audits: u64,
    /// The longest time from a restart until each client was served again.
    pub recovery_max: Duration,
}

/// The clients and the OSTs.
const WORKERS: usize = 4;
const OSTS: u16 = 2;
/// How long anything may take that works.
const TIMEOUT: Duration = Duration::from_secs(180);
/// The pause before a kill, in milliseconds.
const PAUSE: (u64, u64) = (20, 400);
/// The last byte of the address of the workers' node. Those of the mounts follow.
const HOST: u8 = 200;
/// How often clients are told of a restart until they are served again.
const RETELL: Duration = Duration::from_millis(50);
/// How often what clients have is compared.
const CHECK_EVERY: usize = 10;

/// Kills servers under load.
///
/// # Errors
/// What is missing, or does not go on.
pub fn run(options: &Options) -> Result<Report, String> {
    let _ = std::fs::remove_dir_all(&options.scratch);
    std::fs::create_dir_all(&options.scratch).map_err(|error| error.to_string())?;
    let cluster = Cluster::start(&options.fulmar, &options.scratch, OSTS, options.net)?;
    let runtime = Runtime::new(Some(2)).map_err(|error| error.to_string())?;
    let mut nodes = vec![];
    for number in 0..3 {
        nodes.push(node(&runtime, options.net, HOST + number)?);
    }
    let report = Run::new(options, cluster, &nodes).and_then(Run::go);
    nodes.iter().for_each(Node::stop);
    if report.is_ok() {
        let _ = std::fs::remove_dir_all(&options.scratch);
    }
    report
}

fn node(runtime: &Runtime, net: Net, host: u8) -> Result<Node, String> {
    let address = IpAddr::V4(Ipv4Addr::new(127, 0, net.third, host));
    let mut options = NodeOptions::default();
    options.config.socklnd.accept = AcceptMode::All;
    options.config.socklnd.accept_port = net.port;
    options.nis.push(NiOptions::at(address));
    Node::start(runtime, options).map_err(|error| error.to_string())
}

struct Run<'a> {
    options: &'a Options,
    cluster: Cluster,
    workers: Vec<Arc<Worker>>,
    holders: Arc<Holders>,
    rng: Rng,
    report: Report,
    stops: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<String>>>,
    threads: Vec<JoinHandle<()>>,
}

impl<'a> Run<'a> {
    fn new(options: &'a Options, cluster: Cluster, nodes: &[Node]) -> Result<Self, String> {
        let mut workers = vec![];
        for number in 0..WORKERS {
            workers.push(Arc::new(join(&nodes[0], &cluster, options.net, number)?));
        }
        let mount = |number| mount(&nodes[number], &cluster, options.net, number as u8);
        let holders = Arc::new(Holders::new([mount(1)?, mount(2)?])?);
        Ok(Self {
            options,
            report: Report { kills: vec![0; cluster.servers.len()], ..Report::default() },
            cluster,
            workers,
            holders,
            rng: Rng::new(options.seed),
            stops: Arc::default(),
            failure: Arc::default(),
            threads: vec![],
        })
    }

    fn go(mut self) -> Result<Report, String> {
        let done = self.work();
        if done.is_err() {
            // The clients wait for servers that are not there, and end with the process.
            std::mem::forget((self.workers.clone(), self.holders.clone()));
        }
        done.map_err(|error| self.with_seed(&error))
    }

    fn work(&mut self) -> Result<Report, String> {
        self.start_workers();
        self.kill_all()?;
        self.stop_workers();
        self.failed()?;
        self.check_clients()?;
        self.holders.end()?;
        self.report.answered = self.workers.iter().map(|worker| worker.known().answered).sum();
        self.report.audits = self.holders.audits();
        let known = self.known();
        // Their connections end while there are servers.
        self.workers.clear();
        (0..self.cluster.servers.len()).try_for_each(|place| {
            self.cluster.kill(place);
            self.examine(place, &known)
        })?;
        Ok(self.report.clone())
    }

    fn with_seed(&self, error: &str) -> String {
        let (seed, scratch) = (self.options.seed, self.options.scratch.display());
        format!("seed {seed}, logs and directories in {scratch}: {error}")
    }

    fn start_workers(&mut self) {
        self.stops.store(false, Ordering::Relaxed);
        for worker in self.workers.clone() {
            self.start_thread(move |seed, stops| worker.run(seed, stops));
        }
        let holders = self.holders.clone();
        self.start_thread(move |seed, stops| holders.run(seed, stops));
    }

    fn start_thread(
        &mut self,
        run: impl FnOnce(u64, &AtomicBool) -> Result<(), String> + Send + 'static,
    ) {
        let (seed, stops, failure) = (self.rng.u64(), self.stops.clone(), self.failure.clone());
        self.threads.push(std::thread::spawn(move || {
            if let Err(error) = run(seed, &stops) {
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        }));
    }

    fn stop_workers(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }

    fn failed(&self) -> Result<(), String> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.clone().map_or(Ok(()), Err)
    }

    fn kill_all(&mut self) -> Result<(), String> {
        for point in 0..self.options.points {
            let (low, high) = PAUSE;
            std::thread::sleep(Duration::from_millis(self.rng.between(low, high)));
            let place = self.rng.below(self.cluster.servers.len() as u64) as usize;
            self.kill(place).map_err(|error| format!("point {point}, server {place}: {error}"))?;
            if point % CHECK_EVERY == CHECK_EVERY - 1 {
                self.stop_workers();
                self.failed()?;
                self.check_clients()?;
                self.start_workers();
            }
        }
        Ok(())
    }

    fn kill(&mut self, place: usize) -> Result<(), String> {
        if self.options.fault == Fault::Forget(kind_of(place)) {
            return self.forget(place);
        }
        self.cluster.kill(place);
        self.report.kills[place] += 1;
        self.examine(place, &self.known())?;
        if self.options.fault == Fault::RollBack {
            self.roll_back(place)?;
        }
        self.cluster.restart(place)?;
        let begun = Instant::now();
        let before = self.progress();
        while !self.progress().iter().zip(&before).all(|(now, before)| now > before) {
            self.failed()?;
            if begun.elapsed() > TIMEOUT {
                let states = self.workers.iter().map(|one| one.session.state(one.imports[place]));
                let (states, now) = (states.collect::<Vec<_>>(), self.progress());
                return Err(format!(
                    "a client is not served any more: {states:?}, {before:?} before, {now:?} now"
                ));
            }
            self.tell_of_restart(place);
            std::thread::sleep(RETELL);
        }
        self.report.recovery_max = self.report.recovery_max.max(begun.elapsed());
        Ok(())
    }

    /// Returns the directories of the workers, and what they know.
    fn known(&self) -> Vec<(Fid, WorkerKnowledge)> {
        self.workers.iter().map(|worker| (worker.top, worker.known().clone())).collect()
    }

    /// Returns how much each client has done, and the mounts together.
    fn progress(&self) -> Vec<u64> {
        let workers = self.workers.iter().map(|worker| worker.known().answered);
        workers.chain([self.holders.steps()]).collect()
    }

    /// Compares what a killed server has on disk with what it has said.
    fn examine(&self, place: usize, known: &[(Fid, WorkerKnowledge)]) -> Result<(), String> {
        let copy = self.cluster.copy(place, "copy")?;
        match place {
            0 => check::mdt(&copy.join("mdt"), known),
            ost => check::ost(&copy, ost - 1, known),
        }
    }

    /// Kills a server while clients do nothing but hold files and locks, has it forget the first of these, and tries
    /// what they hold. An OST is the one that the first has written for.
    fn forget(&mut self, mut place: usize) -> Result<(), String> {
        self.stop_workers();
        self.failed()?;
        let ost = self.holders.write_first()?;
        if kind_of(place) == TargetKind::Ost {
            place = 1 + ost as usize;
        }
        self.cluster.kill(place);
        let server = &mut self.cluster.servers[place];
        let directory = match kind_of(place) {
            TargetKind::Mdt => server.directory.join("mdt"),
            _ => server.directory.clone(),
        };
        check::forget(&directory, self.holders.clients()[0].uuid())?;
        server.starts += 1;
        self.cluster.restart(place)?;
        let holders = self.holders.clone();
        let check = std::thread::spawn(move || holders.check());
        while !check.is_finished() {
            self.tell_of_restart(place);
            std::thread::sleep(RETELL);
        }
        check.join().map_err(|_| "the check has failed")??;
        self.start_workers();
        Ok(())
    }

    /// Tells all clients that a server has restarted, as the management service does. One that just fails to connect
    /// does not hear it.
    fn tell_of_restart(&self, place: usize) {
        let starts = self.cluster.servers[place].starts;
        for worker in &self.workers {
            worker.session.target_restarted(worker.imports[place], starts);
        }
        let index = place.saturating_sub(1) as u32;
        for client in self.holders.clients() {
            client.target_restarted(kind_of(place), index, starts);
        }
    }

    /// Gives a server the state of its directory at its last kill.
    fn roll_back(&self, place: usize) -> Result<(), String> {
        let kept = self.options.scratch.join(format!("kept{place}"));
        let directory = &self.cluster.servers[place].directory;
        let failed = |error: std::io::Error| error.to_string();
        if kept.exists() {
            std::fs::remove_dir_all(directory).map_err(failed)?;
            cluster::copy(&kept, directory).map_err(failed)
        } else {
            cluster::copy(directory, &kept).map_err(failed)
        }
    }

    fn check_clients(&self) -> Result<(), String> {
        self.workers.iter().try_for_each(|worker| worker.check())?;
        self.holders.check()
    }
}

/// Returns the kind of the target of a server.
fn kind_of(place: usize) -> TargetKind {
    if place == 0 { TargetKind::Mdt } else { TargetKind::Ost }
}

/// Mounts the file system, whose targets are all there.
fn mount(node: &Node, cluster: &Cluster, net: Net, number: u8) -> Result<FileSystem, String> {
    let own: Nid =
        format!("127.0.{}.{}@tcp", net.third, HOST + number).parse().map_err(|_| "no NID")?;
    let options = SessionOptions { interface: None, port: net.port, timeout: TIMEOUT };
    let client = ClientNode::on(node, &[own], options).map_err(|error| error.to_string())?;
    let mounted = wait(client.mount(&cluster.address, MountOptions::default()));
    mounted.map_err(|error| error.to_string())
}

/// Connects a client, and makes its directory and its objects.
fn join(node: &Node, cluster: &Cluster, net: Net, number: usize) -> Result<Worker, String> {
    let own: Nid = format!("127.0.{}.{HOST}@tcp", net.third).parse().map_err(|_| "no NID")?;
    let hour = Duration::from_secs(3600);
    let options = SessionOptions { interface: None, port: net.port, timeout: hour };
    let mut session = Session::on(node, &[own], options).map_err(|error| error.to_string())?;
    let mgs = session.connect_mgs(&cluster.address).map_err(|error| error.to_string())?;
    let begun = Instant::now();
    let found = loop {
        match session.file_system(mgs, &cluster.address) {
            Ok(found) if found.osts.len() == usize::from(OSTS) && !found.mdts.is_empty() => {
                break found;
            }
            other if begun.elapsed() > TIMEOUT => {
                return Err(format!("no file system: {other:?}"));
            }
            _ => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    let uuid = Uuid::new(&format!("worker-{number}")).ok_or("no UUID")?;
    let targets: Vec<&FsTarget> = found.mdts.iter().chain(&found.osts).collect();
    let mut imports = vec![];
    for target in targets {
        let kind = if target.kind == TargetKind::Mdt { TargetKind::Mdt } else { TargetKind::Ost };
        let import = session.connect_with(uuid, target, requests::requested(kind));
        imports.push(import.map_err(|errno| format!("{:?}: {errno}", target.kind))?);
    }
    let say = |errno: Errno| format!("the worker {number} cannot prepare: {errno}");
    let top = requests::first_fid(&session, imports[0]).map_err(say)?;
    let title = format!("w{number}");
    let made = requests::create(Fid::ROOT, &title, top, requests::DIRECTORY | 0o755);
    session.call(imports[0], made).map_err(say)?;
    let mut objects: Vec<(u32, Fid)> = vec![];
    let mut child = Fid { oid: 1 << 16, ..top };
    while objects.len() < 2 * usize::from(OSTS) {
        child.oid += 1;
        let place = (top, &*format!("data{}", child.oid), child);
        match requests::create_with_object(&session, imports[0], place) {
            Ok(object) => objects.push(object),
            // The MDT has not met all OSTs yet.
            Err(Errno::EINPROGRESS) if begun.elapsed() < TIMEOUT => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(errno) => return Err(say(errno)),
        }
    }
    // Files that are open are not a part of this.
    std::thread::sleep(Duration::from_millis(300));
    Ok(Worker::new(session, imports, top, objects))
}

/// Returns a directory for a run of this process.
#[must_use]
pub fn scratch(name: &str) -> PathBuf {
    let temporary: &Path = &std::env::temp_dir();
    temporary.join(format!("fulmar-kill-{name}-{}", std::process::id()))
}
