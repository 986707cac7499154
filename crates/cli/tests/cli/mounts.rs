//! `fulmar mount`, and the commands of `lfs` on paths of the mount.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::nodes::lab::{Lab, Node, fulmar, ran};

/// Longer than anything takes that works.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A file system of two OSTs that is mounted; the mount ends with it.
struct MountFixture {
    lab: Lab,
    /// What is mounted.
    address: String,
    directory: PathBuf,
    _servers: Node,
    _turn: Turn,
}

/// The turn of a test that mounts something.
pub(crate) type Turn = MutexGuard<'static, ()>;

/// Waits until no other test has a mount; `None`, with a NOT RUN line, where nothing can be mounted.
///
/// A command of lctl reads and sets the parameters of all mounts of the machine, whose tests do not know each other.
pub(crate) fn turn(what: &str) -> Option<Turn> {
    static TURN: Mutex<()> = Mutex::new(());
    if rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists() {
        return Some(TURN.lock().unwrap_or_else(PoisonError::into_inner));
    }
    let line = format!("NOT RUN: {what}: they need root and /dev/fuse: run them with sudo");
    let mut errors = std::io::stderr();
    writeln!(errors, "\n{line}").unwrap();
    None
}

/// Whether something is mounted on a directory.
fn is_mounted(directory: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    table.split(' ').any(|word| Path::new(word) == directory)
}

impl MountFixture {
    /// Mounts a file system of the servers at 127.0.0.`host`; `None`, with a NOT RUN line, where that is not possible.
    fn start(name: &str, host: u8) -> Option<Self> {
        let turn = turn("mounts")?;
        let lab = Lab::new(name);
        let (port, nid) = (lab.port, format!("127.0.0.{host}@tcp"));
        let networks = format!("tcp(127.0.0.{host})");
        let servers =
            lab.up(host, &["fs", "--osts", "2", "--fsname", "lv", "--networks", &networks]);
        let df = format!("lfs df {nid}:/lv --port {port}");
        servers.wait_for_success(&df);
        for target in ["MDT:0", "OST:0", "OST:1"] {
            servers.wait_for_output(&df, target);
        }
        let directory = lab.path("mount");
        fs::create_dir(&directory).unwrap();
        let address = format!("{nid}:/lv");
        let words = format!("mount {address} mount --port {port}");
        let done = ran(fulmar(&lab.path("")).args(words.split(' ')));
        assert_eq!(done, (0, String::new(), String::new()));
        let mounted = Self { lab, address, directory, _servers: servers, _turn: turn };
        mounted.wait_for_objects("0");
        mounted.wait_for_objects("1");
        Some(mounted)
    }

    fn run(&self, words: &str) -> (i32, String, String) {
        ran(fulmar(&self.directory).args(words.split_whitespace()))
    }

    /// Does something while the file system is mounted at another place too.
    fn with_another<T>(&self, act: impl FnOnce() -> T) -> T {
        let directory = self.lab.path("another");
        fs::create_dir(&directory).unwrap();
        let words = format!(
            "mount {} another --port {} --interface 127.0.0.183",
            self.address, self.lab.port
        );
        let done = ran(fulmar(&self.lab.path("")).args(words.split(' ')));
        assert_eq!(done, (0, String::new(), String::new()));
        let result = act();
        assert!(Command::new("umount").arg(&directory).status().unwrap().success());
        result
    }

    /// Waits until the MDT has objects of an OST for new files.
    fn wait_for_objects(&self, ost: &str) {
        let begun = Instant::now();
        loop {
            let (status, _, err) = self.run(&format!("lfs setstripe -i {ost} probe"));
            if status == 0 {
                return fs::remove_file(self.directory.join("probe")).unwrap();
            }
            assert!(begun.elapsed() < TIMEOUT, "{err}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Runs a command that must succeed in the mounted directory, and returns what it prints.
    fn output(&self, words: &str) -> String {
        let (status, out, err) = self.run(words);
        assert_eq!((status, err.as_str()), (0, ""), "{words}: {out}");
        out
    }
}

impl Drop for MountFixture {
    fn drop(&mut self) {
        // The directory of the lab is removed next: what is in the mount must not be.
        let _ = Command::new("umount").arg(&self.directory).status();
        let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        if table.contains(self.lab.path("mount").to_str().unwrap_or_default()) {
            let _ = Command::new("umount").arg("-l").arg(&self.directory).status();
        }
    }
}

#[test]
fn lfs_tells_of_the_targets_of_a_mount() {
    let Some(mounted) = MountFixture::start("lfs-targets", 61) else { return };
    let place = mounted.directory.display().to_string();
    assert_eq!(
        mounted.output("lfs osts ."),
        "OBDS:\n0: lv-OST0000_UUID ACTIVE\n1: lv-OST0001_UUID ACTIVE\n"
    );
    assert_eq!(mounted.output("lfs mdts ."), "MDTS:\n0: lv-MDT0000_UUID ACTIVE\n");
    let df = mounted.output(&format!("lfs df {place}"));
    let lines: Vec<&str> = df.lines().collect();
    assert_eq!(
        lines[0],
        "UUID                   1K-blocks        Used   Available Use%  Mounted on"
    );
    assert!(
        lines[1].starts_with("lv-MDT0000_UUID ") && lines[1].ends_with(&format!("{place}[MDT:0] "))
    );
    assert!(
        lines[3].starts_with("lv-OST0001_UUID ") && lines[3].ends_with(&format!("{place}[OST:1] "))
    );
    assert!(
        lines[5].starts_with("filesystem_summary: ") && lines[5].ends_with(&format!("{place} "))
    );
    assert!(mounted.output("lfs df -i --ost=1 .").starts_with("lv-OST0001_UUID "));
    assert!(mounted.output("lfs df -h .").contains("Used   Available Use%"));
    let checked = mounted.output("lfs check servers .");
    let devices: Vec<&str> = checked.lines().collect();
    assert!(
        devices[0].starts_with("lv-OST0000-osc-") && devices[0].ends_with(" active."),
        "{checked}"
    );
    assert!(
        devices[2].starts_with("lv-MDT0000-mdc-") && devices[2].len() == devices[0].len(),
        "{checked}"
    );
    assert_eq!(devices[3], "MGC127.0.0.61@tcp active.");
    assert_eq!(mounted.output("lfs check mds .").lines().count(), 1);
}

#[test]
fn lfs_tells_of_the_quotas_of_a_mount_and_of_an_address() {
    let Some(mounted) = MountFixture::start("lfs-quota", 64) else { return };
    let user = 4711;
    let before = mounted.output("lfs quota -q -u 4711 .");
    assert_eq!(before.split_whitespace().nth(1), Some("0"), "{before}");
    let file = mounted.directory.join("file");
    fs::write(&file, vec![7; 1 << 20]).unwrap();
    fs::File::open(&file).unwrap().sync_all().unwrap();
    std::os::unix::fs::chown(&file, Some(user), Some(user)).unwrap();
    // The objects get their owner some time after the file.
    let begun = Instant::now();
    let shown = loop {
        let shown = mounted.output("lfs quota -u 4711 .");
        if shown.lines().nth(2).is_some_and(|row| row.starts_with("              .    1024 ")) {
            break shown;
        }
        assert!(begun.elapsed() < TIMEOUT, "{shown}");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(
        shown,
        "Disk quotas for usr 4711 (uid 4711):\n     \
         Filesystem  kbytes  bquota  blimit  bgrace   files  iquota  ilimit  igrace \n              \
         .    1024       0       0       -       1       0       0       - \n"
    );
    assert!(mounted.output("lfs quota -q -h -g 4711 .").contains("   1024k      0k "));
    let both = mounted.output("lfs quota .");
    assert!(both.contains("usr root (uid 0)") && both.contains("grp root (gid 0)"), "{both}");
    // The mount has the address that would be taken.
    let reach = format!("--interface 127.0.0.65 --port {}", mounted.lab.port);
    let remote = mounted.output(&format!("lfs quota -q -u 4711 127.0.0.64@tcp:/lv {reach}"));
    let row =
        "127.0.0.64@tcp:/lv\n                   1024       0       0       -       1       0 ";
    assert!(remote.starts_with(row), "{remote}");
}

#[test]
fn files_of_a_mount_are_warmed_up() {
    let Some(mounted) = MountFixture::start("warmup", 66) else { return };
    let tree = mounted.directory.join("tree/below");
    fs::create_dir_all(&tree).unwrap();
    for number in 0..20 {
        fs::write(tree.join(number.to_string()), vec![number; 1000]).unwrap();
    }
    std::os::unix::fs::symlink("below", mounted.directory.join("tree/link")).unwrap();
    let done = mounted.output("warmup tree --jobs 4");
    assert!(
        done.starts_with("20 files, 2 directories and 19.5 KiB in the cache, 20 kept open, "),
        "{done}"
    );
    // Other tests have mounts too.
    let devices = mounted.output("lfs check osts .");
    let number = devices.split([' ', '-']).nth(3).unwrap();
    let parameters = format!("lctl get_param -n mdc.*-{number}.stats osc.*-{number}.stats");
    let count = || {
        let stats = mounted.output(&parameters);
        let count = |line: &str| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap();
        let names = ["ldlm_enqueue", "mds_close", "ost_read"];
        let of = |line: &&str| names.iter().any(|name| line.starts_with(name));
        stats.lines().filter(of).map(count).sum::<u64>()
    };
    // Attributes of the directories may have been changed last by this mount itself.
    let look = || {
        for number in 0..20 {
            assert_eq!(fs::read(tree.join(number.to_string())).unwrap(), vec![number; 1000]);
        }
    };
    look();
    let before = count();
    look();
    assert_eq!(count(), before);
    let state = mounted.output("warmup --data no --quiet tree/below/1");
    assert_eq!(state, "");
    let (status, _, err) = mounted.run("warmup /");
    let expected = "fulmar warmup: / is on no file system that is mounted by fulmar\n";
    assert_eq!((status, err.as_str()), (1, expected));
}

#[test]
fn the_rpcs_of_a_mount_are_traced() {
    let Some(mounted) = MountFixture::start("trace", 68) else { return };
    let begin = |words: &str| {
        let mut trace = fulmar(&mounted.directory);
        trace.args(words.split_whitespace());
        trace.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        trace.spawn().unwrap()
    };
    let trace = begin("trace --summary .");
    let begun = Instant::now();
    // It has begun as soon as it has read once: until then names are not noted.
    let mut number = 0;
    let parameters = "lctl list_param llite.*.stats";
    while number < 40 {
        fs::write(mounted.directory.join(format!("file{number}")), "text").unwrap();
        mounted.output(parameters);
        std::thread::sleep(Duration::from_millis(20));
        number += 1;
        assert!(begun.elapsed() < TIMEOUT);
    }
    let pid = rustix::process::Pid::from_raw(trace.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let done = trace.wait_with_output().unwrap();
    let (out, err) =
        (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
    assert_eq!((done.status.code(), err.as_str()), (Some(0), ""), "{out}");
    let lines: Vec<&str> = out.lines().collect();
    let open = lines
        .iter()
        .find(|line| line.contains(" LDLM_ENQUEUE OPEN|CREAT ") && line.ends_with(" file39"));
    assert!(
        open.is_some_and(|line| line.contains(" lv-MDT0000 ") && line.contains(" ok ")),
        "{out}"
    );
    let summary = lines.iter().position(|line| line.starts_with("operation "));
    let rows = &lines[summary.unwrap()..];
    for name in ["LDLM_ENQUEUE OPEN|CREAT ", "MDS_CLOSE "] {
        assert!(rows.iter().any(|row| row.starts_with(name)), "{name}: {out}");
    }
    let short = begin("trace --op none --for 10ms .").wait_with_output().unwrap();
    assert!(short.status.success() && short.stdout.is_empty());
}

#[test]
fn lfs_find_and_mkdir_work_on_a_mount() {
    let Some(mounted) = MountFixture::start("lfs-find", 62) else { return };
    mounted.output("lfs mkdir -i 0 -c 1 -m 0750 d");
    let shown = mounted.output("lfs getdirstripe d");
    assert_eq!(shown, "lmv_stripe_count: 0 lmv_stripe_offset: 0 lmv_hash_type: none\n");
    // The servers have one MDT.
    let (status, _, err) = mounted.run("lfs mkdir -i 1 e");
    assert!(status == 19 && err.contains("No such device"), "{err}");
    mounted.output("lfs setstripe -c 2 -S 128K d/wide");
    mounted.output("lfs setstripe -c 1 -i 1 d/one");
    mounted.output("lfs setstripe -E 64K -L mdt -E -1 -c 1 -i 0 d/small");
    fs::write(mounted.directory.join("d/wide"), vec![1; 300_000]).unwrap();
    fs::write(mounted.directory.join("d/one"), "text").unwrap();
    fs::write(mounted.directory.join("d/small"), vec![2; 100_000]).unwrap();
    let found = |conditions: &str| {
        let out = mounted.output(&format!("lfs find . {conditions}"));
        let mut lines: Vec<String> = out.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(found(""), [".", "./d", "./d/one", "./d/small", "./d/wide"]);
    assert_eq!(found("-type f -c 2"), ["./d/wide"]);
    assert_eq!(found("-type f -O 1"), ["./d/one", "./d/wide"]);
    assert_eq!(found("-type f ! --ost lv-OST0001_UUID"), ["./d/small"]);
    assert_eq!(found("-S 128K"), ["./d/wide"]);
    assert_eq!(found("-type f -size +90k -mtime -1 -user root"), ["./d/small", "./d/wide"]);
    assert_eq!(found("-maxdepth 1 -type d ! -name ."), ["./d"]);
    let (status, out, err) = mounted.run("lfs find missing -type f");
    assert_eq!((status, out.as_str()), (2, ""), "{err}");
}

#[test]
fn a_file_system_is_mounted_where_it_is_served() {
    let Some(_turn) = turn("mounts") else { return };
    let lab = Lab::new("up-mount");
    let directory = lab.path("mount");
    fs::create_dir(&directory).unwrap();
    let data: Vec<u8> = (0..3_000_000u32).map(|n| (n / 7) as u8).collect();
    for written in [true, false] {
        let args = ["fs", "--osts", "2", "--mount", "mount", "--networks", "tcp(127.0.0.74)"];
        let node = lab.up(74, &args);
        let begun = Instant::now();
        while !is_mounted(&directory) {
            assert!(begun.elapsed() < TIMEOUT, "not mounted");
            std::thread::sleep(Duration::from_millis(50));
        }
        if written {
            fs::write(directory.join("file"), &data).unwrap();
        }
        assert!(fs::read(directory.join("file")).unwrap() == data);
        assert_eq!(node.terminate().0, Some(0));
        assert!(!is_mounted(&directory), "still mounted");
    }
    let (status, out, err) = ran(fulmar(&lab.path("")).args(["fsck", "fs"]));
    assert_eq!((status, out.matches("no damage").count(), err.as_str()), (0, 4, ""), "{out}");
}

#[test]
fn servers_behind_a_router_are_mounted() {
    let Some(_turn) = turn("mounts") else { return };
    let lab = Lab::new("routed-mount");
    let configure = |name: &str, networks: &str| {
        let routes = "tcp1 127.0.0.75@tcp; tcp 127.0.0.76@tcp1";
        let text = format!(
            "options lnet networks={networks} routes=\"{routes}\" accept=all accept_port={}\n",
            lab.port
        );
        fs::write(lab.path(name), text).unwrap();
    };
    configure("router", "tcp(127.0.0.75),tcp1(127.0.0.76)");
    configure("servers", "tcp(127.0.0.77)");
    configure("client", "tcp1(127.0.0.78)");
    let router = lab.node_with(75, &["-c", "router"]);
    let servers = lab.up(77, &["fs", "--fsname", "lv", "-c", "servers"]);
    let directory = lab.path("mount");
    fs::create_dir(&directory).unwrap();
    let run = |words: &str| ran(fulmar(&lab.path("")).args(words.split(' ')));
    let begun = Instant::now();
    while run("mount 127.0.0.77@tcp:/lv mount -o config=client --timeout 20").0 != 0 {
        assert!(begun.elapsed() < TIMEOUT, "not mounted");
    }
    let data: Vec<u8> = (0..3_000_000u32).map(|n| (n / 7) as u8).collect();
    let mut file = fs::File::create(directory.join("file")).unwrap();
    file.write_all(&data).unwrap();
    file.sync_all().unwrap();
    drop(file);
    assert!(fs::read(directory.join("file")).unwrap() == data);
    assert!(Command::new("umount").arg(&directory).status().unwrap().success());
    let forwarded = router.output("lctl get_param -n stats");
    let bytes: u64 = forwarded.split_whitespace().nth(9).unwrap().parse().unwrap();
    assert!(bytes > 3_000_000, "{forwarded}");
    drop(servers);
}

#[test]
fn lctl_tells_and_sets_the_parameters_of_a_mount() {
    let Some(mounted) = MountFixture::start("lctl-mount", 63) else { return };
    fs::write(mounted.directory.join("file"), vec![7; 3_000_000]).unwrap();
    fs::File::open(mounted.directory.join("file")).unwrap().sync_all().unwrap();
    // Other tests have mounts too.
    let devices = mounted.output("lfs check osts .");
    let number = devices.split([' ', '-']).nth(3).unwrap();
    let lctl = |words: &str| format!("lctl {}", words.replace(".*.", &format!(".*-{number}.")));
    let output = |words: &str| mounted.output(&lctl(words));
    let listed = output("list_param osc.*.*");
    assert_eq!(listed.lines().count(), 16, "{listed}");
    let listed = output("list_param llite.*.*");
    assert!(listed.contains(".stats\n") && listed.contains(".read_ahead_stats\n"), "{listed}");
    let names = output("get_param -N llite.*.max_cached_mb osc.*.import");
    let names: Vec<&str> = names.lines().collect();
    assert!(names[0].starts_with("llite.lv-") && names[0].ends_with(".max_cached_mb"));
    assert!(names[2].starts_with("osc.lv-OST0001-osc-") && names[2].ends_with(".import"));
    assert_eq!(names.len(), 3);
    let import = output("get_param mdc.*.import");
    assert!(import.starts_with("mdc.lv-MDT0000-mdc-") && import.contains(".import=\nimport:\n"));
    let lines = ["    target: lv-MDT0000_UUID\n", "    state: FULL\n", "127.0.0.63@tcp\" ]\n"];
    assert!(lines.iter().all(|line| import.contains(line)), "{import}");
    let stats = output("get_param -n osc.*.stats");
    assert_eq!(stats.matches("snapshot_time ").count(), 2);
    let written = stats.lines().filter(|line| line.starts_with("write_bytes ")).count();
    assert!(written > 0 && stats.contains("\nost_write  "), "{stats}");
    let table = output("get_param -n osc.*.rpc_stats");
    assert_eq!(table.matches("rpcs in flight        rpcs   % cum % |").count(), 2, "{table}");
    let locks = output("get_param -n ldlm.namespaces.*.lock_count");
    assert!(locks.lines().count() == 3 && locks.lines().all(|line| line.parse::<u64>().is_ok()));
    assert_eq!(output("get_param -n osc.*.checksums"), "1\n1\n");
    counters_are_shown_and_cleared(&mounted, &output);

    let set = output("set_param osc.*.max_dirty_mb=96 osc.*.max_rpcs_in_flight=16");
    assert_eq!(set.matches("max_dirty_mb=96\n").count(), 2, "{set}");
    let limits = "get_param -n osc.*.max_dirty_mb osc.*.max_rpcs_in_flight";
    assert_eq!(output(limits), "96\n96\n16\n16\n");
    output("set_param -n llite.*.max_cached_mb=512 llite.*.max_read_ahead_mb=32");
    assert!(output("get_param llite.*.max_cached_mb").contains("\nmax_cached_mb: 512\n"));
    assert_eq!(output("get_param -n llite.*.max_read_ahead_mb"), "32\n");
    assert_eq!(fs::read(mounted.directory.join("file")).unwrap(), vec![7; 3_000_000]);
    for (command, expected, why) in [
        ("get_param osc.*.none", 2, "No such file or directory"),
        ("set_param osc.*.none=1", 2, "No such file or directory"),
        ("set_param osc.*.import=1", 13, "/import=1: Permission denied\n"),
        ("set_param llite.*.max_cached_mb=1", 34, "/max_cached_mb=1: Numerical result out of"),
        ("set_param osc.*.max_dirty_mb=x", 22, "/max_dirty_mb=x: Invalid argument\n"),
    ] {
        let (status, out, err) = mounted.run(&lctl(command));
        assert_eq!((status, out.as_str()), (expected, ""), "{command}: {err}");
        assert!(err.contains(why), "{command}: {err}");
    }
}

#[test]
fn a_mount_has_a_debug_log_as_a_node() {
    let Some(mounted) = MountFixture::start("debug-mount", 82) else { return };
    let lctl = |words: &str| mounted.output(&format!("lctl {words}"));
    let log = lctl("dk");
    assert!(log.contains("lv-MDT0000 at 127.0.0.82@tcp: Full\n"), "{log}");
    let (last, count) = (log.lines().last().unwrap(), log.lines().count() - 1);
    assert_eq!(last, format!("Debug log: {count} lines, {count} kept, 0 dropped, 0 bad."));
    assert!(!log.contains(", took "), "{log}");
    lctl("set_param -n debug=+rpctrace");
    let told = mounted.with_another(|| lctl("set_param debug=+dlmtrace"));
    assert_eq!(told, "debug=+dlmtrace\n", "all mounts of the machine, once");
    let mask = lctl("get_param -n debug");
    assert!(mask.contains("rpctrace") && mask.contains("dlmtrace"), "{mask}");
    lctl("mark hello of a mount");
    fs::write(mounted.directory.join("file"), vec![7; 3_000_000]).unwrap();
    fs::File::open(mounted.directory.join("file")).unwrap().sync_all().unwrap();
    let log = lctl("dk");
    // The logs of all mounts of the machine are one; others had the same mask before the marker.
    let behind = log.split_once("DEBUG MARKER: hello of a mount\n").map(|(_, behind)| behind);
    let log = behind.unwrap_or_else(|| panic!("no marker: {log}"));
    let place = |text: &str| log.find(text).unwrap_or_else(|| panic!("no {text}: {log}"));
    let wanted = place("lv-MDT0000: LDLM_ENQUEUE of a ");
    assert!(wanted < place("lv-MDT0000: LDLM_ENQUEUE, request "), "{log}");
    assert!(log.contains(" IBITS lock on ") && log.contains(" EXTENT lock on "), "{log}");
    assert!(place(": OST_WRITE, request ") < log.rfind(" us: ok\n").unwrap(), "{log}");
    assert!(!lctl("dk").contains("hello of a mount"));
    lctl("mark and again");
    lctl("clear");
    assert!(!lctl("dk").contains("and again"));
    let (status, _, err) = mounted.run("lctl set_param debug=nothing");
    assert_eq!(status, 22, "{err}");
    lctl("set_param -n debug=-rpctrace");
    lctl("set_param -n debug=-dlmtrace");
}

/// What users and RPCs have done on a mount is told, and begins again when it is written to; checksums are switched.
fn counters_are_shown_and_cleared(mounted: &MountFixture, output: &dyn Fn(&str) -> String) {
    let file = mounted.directory.join("file");
    output(
        "set_param -n llite.*.stats=0 llite.*.read_ahead_stats=0 osc.*.stats=0 osc.*.rpc_stats=0",
    );
    let cleared = output("get_param -n llite.*.stats");
    assert!(cleared.starts_with("snapshot_time ") && !cleared.contains("read_bytes"), "{cleared}");
    assert!(!output("get_param -n osc.*.stats").contains("ost_"));
    // What was written is cached: nothing is missed.
    assert_eq!(fs::read(&file).unwrap().len(), 3_000_000);
    // The kernel has a file closed after the program has gone on.
    let begun = Instant::now();
    let stats = loop {
        let stats = output("get_param -n llite.*.stats");
        if stats.contains("\nclose ") || begun.elapsed() > TIMEOUT {
            break stats;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let sum = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
        line.map_or(0, |line| line.split_whitespace().nth(6).unwrap().parse::<u64>().unwrap())
    };
    assert_eq!(sum(&stats, "read_bytes"), 3_000_000, "{stats}");
    for name in ["open", "close", "read"] {
        let line = stats.lines().find(|line| line.starts_with(&format!("{name:35} ")));
        assert!(line.is_some_and(|line| line.contains(" samples [usecs] ")), "{name}: {stats}");
    }
    let pages = output("get_param -n llite.*.read_ahead_stats");
    assert!(pages.contains("\nhits   ") && !pages.contains("misses"), "{pages}");
    assert_eq!(output("set_param osc.*.checksums=0").matches("checksums=0\n").count(), 2);
    assert_eq!(output("get_param -n osc.*.checksums"), "0\n0\n");
    fs::write(&file, vec![7; 3_000_000]).unwrap();
    fs::File::open(&file).unwrap().sync_all().unwrap();
    let stats = output("get_param -n osc.*.stats");
    assert!(stats.contains("\nost_write "), "{stats}");
    output("set_param -n osc.*.checksums=1");
    assert_eq!(output("get_param -n osc.*.checksums"), "1\n1\n");
}
