//! Random operations of several clients on files, compared with a model. `make model` executes more of them.

use std::ops::RangeInclusive;
use std::path::Path;

use fulmar_testbed::kill::{Net, scratch};
use fulmar_testbed::lab::{binaries, not_run};
use fulmar_testbed::model::library::Library;
use fulmar_testbed::model::mounts::Mounts;
use fulmar_testbed::model::{Layout, Operation, Settings, Step, generate, parse};

const CLIENTS: u8 = 3;
const SETTINGS: Settings =
    Settings { clients: CLIENTS, steps: 200, faults: false, together: true, layout: None };
/// Seeds of each layout.
const SEEDS: RangeInclusive<u64> = 1..=5;
/// The same beside faults: of servers, and of clients.
const FAULTY: RangeInclusive<u64> = 2..=4;
/// Two mounts.
const MOUNTED: Settings = Settings { clients: 2, ..SETTINGS };
/// Returns addresses that no other test has.
fn net(third: u8) -> Net {
    Net { third, port: fulmar_loopback::ports(1) }
}

/// Leaves out broken connections: each costs the time after which a request is sent again.
fn quick(mut steps: Vec<Step>) -> Vec<Step> {
    steps.retain(|step| !matches!(step.operation, Operation::Disconnect { .. }));
    steps
}

/// Checks clients of the library.
fn library(name: &str, third: u8, seeds: RangeInclusive<u64>, settings: Settings) {
    let library = Library::start(&scratch(name), net(third), settings.clients);
    let mut library = library.unwrap_or_else(|error| panic!("{error}"));
    for seed in seeds {
        let done = library.check(&quick(generate(seed, settings)));
        done.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
    library.stop().unwrap_or_else(|damage| panic!("{damage}"));
}

#[test]
fn clients_do_what_the_model_says_on_one_object() {
    library("model-plain", 161, SEEDS, Settings { layout: Some(Layout::Plain), ..SETTINGS });
}

#[test]
fn clients_do_what_the_model_says_on_stripes() {
    library("model-wide", 162, SEEDS, Settings { layout: Some(Layout::Wide), ..SETTINGS });
}

#[test]
fn clients_do_what_the_model_says_on_components() {
    library("model-parts", 163, SEEDS, Settings { layout: Some(Layout::Parts), ..SETTINGS });
}

#[test]
fn clients_do_what_the_model_says_on_the_mdt() {
    library("model-mdt", 164, SEEDS, Settings { layout: Some(Layout::OnMdt), ..SETTINGS });
}

#[test]
fn clients_do_what_the_model_says_beside_faults() {
    library("model-faults", 166, FAULTY, Settings { faults: true, ..SETTINGS });
}

/// A request is under way when the connection breaks, and others have to wait for locks of its client.
const BROKEN: &str =
    "0 open h0 /f0 rwc wide\n1 open h0 /f0 rwa default\n0 write h0 0 300000 1\n1 disconnect 0
1 write h0 0 70000 2\n1 sync h0\n0 read h0 290000 80000\n0 mkdir /d0 0755\n1 rename /f0 /d0/f1";

/// What a client has locked is free when it is evicted, and what others change then is seen; a file that is open and loses its
/// last name is gone.
const EVICTED: &str = "0 open h0 /f0 rwc wide\n0 open h1 /f1 rwc default\n0 write h0 0 200000 7\n0 lock h0 posix rw 0 100
0 lock h1 flock rw 0 1\n0 evict\n1 open h0 /f0 rw default\n1 lock h0 ofd rw 0 100\n1 write h0 0 100000 9\n0 read h0 0 200000
0 write h0 10 10 1\n0 lock h0 posix r 50 10\n1 unlink /f1\n0 fstat h1\n0 close h1\n0 close h0";

/// A client with a grant has written in its cache when an OST is full, one without is refused, and what has its blocks is
/// written again; then there is room.
const FILLED: &str = "0 open h0 /f0 rwc wide\n1 open h0 /f0 rw default\n0 open h1 /f0 rw default\n0 write h0 0 150000 1
0 fill all\n0 write h0 150000 50000 2\n1 evict\n1 write h0 400000 300000 3\n1 open h1 /f1 rwc wide\n1 write h1 0 200000 3
1 allocate h1 0 10000 grow\n1 copy h0 0 100000 h1 0\n1 write h0 100 1000 4\n0 read h0 0 300000\n0 write h1 0 100000 5\n1 sync h0
0 open h2 /f2 rwc plain\n1 truncate /f0 120000\n0 drain ost1\n1 write h1 0 200000 6\n1 open h2 /f2 rwcs mdt\n1 write h2 0 100000 7
0 drain all\n1 write h1 0 200000 8\n1 sync h1";

/// Executes operations of two clients.
fn replay(name: &str, third: u8, steps: &str) {
    let library = Library::start(&scratch(name), net(third), 2);
    let mut library = library.unwrap_or_else(|error| panic!("{error}"));
    let steps = parse(steps).unwrap_or_else(|error| panic!("{error}"));
    library.check(&steps).unwrap_or_else(|failure| panic!("{failure}"));
    library.stop().unwrap_or_else(|damage| panic!("{damage}"));
}

#[test]
fn a_connection_that_breaks_changes_nothing() {
    replay("model-broken", 167, BROKEN);
}

#[test]
fn a_client_that_is_evicted_goes_on_without_its_locks() {
    replay("model-evicted", 168, EVICTED);
}

#[test]
fn a_server_without_room_refuses_and_loses_nothing() {
    replay("model-filled", 169, FILLED);
}

/// Mounts by processes, or says why there are none.
fn mounts(name: &str, third: u8) -> Option<Mounts> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        not_run("the model with mounts: it needs root and /dev/fuse: run it with sudo");
        return None;
    }
    let fulmar = binaries().unwrap_or_else(|why| panic!("{why}")).join("fulmar");
    let mounts = Mounts::start(&fulmar, &scratch(name), net(third), MOUNTED.clients);
    Some(mounts.unwrap_or_else(|error| panic!("{error}")))
}

#[test]
fn two_mounts_do_what_the_model_says() {
    let Some(mut mounts) = mounts("model-mounts", 165) else { return };
    let model = Path::new(env!("CARGO_BIN_EXE_fulmar-model"));
    let mut agents = mounts.agents(model).unwrap_or_else(|error| panic!("{error}"));
    let faulty = Settings { faults: true, ..MOUNTED };
    for (seed, settings) in SEEDS.map(|seed| (seed, MOUNTED)).chain([(1, faulty), (4, faulty)]) {
        let done = mounts.check(&mut agents, &quick(generate(seed, settings)));
        done.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
    drop(agents);
    mounts.stop().unwrap_or_else(|damage| panic!("{damage}"));
}
