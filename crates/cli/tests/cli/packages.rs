//! What `make install` installs, and packages contain.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::guide::lab::install;
use crate::guide::root;

/// A directory that is removed at the end.
struct Stage(PathBuf);

impl Stage {
    fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("fulmar-stage-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the files and links below a directory, by their paths in it.
fn files(directory: &Path) -> Vec<String> {
    let output = Command::new("find")
        .arg(directory)
        .args(["-not", "-type", "d", "-printf", "%P\n"])
        .output();
    let mut files: Vec<String> =
        String::from_utf8(output.unwrap().stdout).unwrap().lines().map(str::to_owned).collect();
    files.sort();
    files
}

fn not_run(what: &str, why: &str) {
    let mut errors = std::io::stderr();
    writeln!(errors, "\nNOT RUN: {what}: {why}").unwrap();
}

/// Runs a program; `None`, with a line, where there is none.
fn output(program: &str, what: &str, args: &[&str]) -> Option<String> {
    let Ok(output) = Command::new(program).args(args).env("MANWIDTH", "80").output() else {
        not_run(what, &format!("no {program}"));
        return None;
    };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Some(text) } else { Some(format!("{text}{}", output.status)) }
}

#[test]
fn an_installation_has_every_name_of_the_binary_and_none_of_lustre_s() {
    let stage = Stage::new("names");
    install(&stage.0, "/usr");
    let files = files(&stage.0);
    for expected in [
        "etc/fulmar/node.yaml",
        "usr/bin/fulmar",
        "usr/lib/fulmar/bin/lctl",
        "usr/lib/fulmar/bin/lfs",
        "usr/lib/fulmar/bin/lnetctl",
        "usr/lib/fulmar/bin/lst",
        "usr/lib/fulmar/share/man/man1/lfs.1",
        "usr/lib/fulmar/share/man/man8/lctl.8",
        "usr/lib/fulmar/share/man/man8/lnetctl.8",
        "usr/lib/fulmar/share/man/man8/lst.8",
        "usr/lib/systemd/system/fulmar-mount@.service",
        "usr/lib/systemd/system/fulmar-node.service",
        "usr/lib/systemd/system/fulmar-server.service",
        "usr/lib/systemd/system/fulmar-target@.service",
        "usr/sbin/mount.fulmar",
        "usr/share/bash-completion/completions/fulmar",
        "usr/share/doc/fulmar/guide/router.md",
        "usr/share/fish/vendor_completions.d/fulmar.fish",
        "usr/share/man/man1/fulmar-node.1",
        "usr/share/man/man1/fulmar.1",
        "usr/share/man/man8/mount.fulmar.8",
        "usr/share/zsh/site-functions/_fulmar",
    ] {
        assert!(files.iter().any(|file| file == expected), "{expected} is missing in {files:#?}");
    }
    // All others have the name in their own, so that no package of others has the same file.
    let others: Vec<_> = files.iter().filter(|file| !file.contains("fulmar")).collect();
    assert!(others.is_empty(), "{others:?}");
    for tool in ["lnetctl", "lctl", "lst", "lfs"] {
        let called = Command::new(stage.path("usr/lib/fulmar/bin").join(tool))
            .arg("--help")
            .output()
            .unwrap();
        let help = String::from_utf8(called.stdout).unwrap();
        assert!(
            help.to_lowercase().contains(&format!("{tool} [")) || help.contains("lfs <"),
            "{tool}: {help}"
        );
        for completion in ["bash-completion/completions/", "zsh/site-functions/_"] {
            let script = stage.path("usr/lib/fulmar/share").join(format!("{completion}{tool}"));
            assert!(fs::read_to_string(&script).unwrap().contains(tool), "{}", script.display());
        }
    }
}

#[test]
fn a_configuration_that_is_there_is_not_installed_again() {
    let stage = Stage::new("again");
    install(&stage.0, "/usr");
    let config = stage.path("etc/fulmar/node.yaml");
    let checked = Command::new(stage.path("usr/bin/fulmar"))
        .args(["node", "--check", "-c"])
        .arg(&config)
        .output();
    assert_eq!(checked.unwrap().status.code(), Some(0));
    fs::write(&config, "node:\n    accept: all\n").unwrap();
    install(&stage.0, "/usr");
    assert_eq!(fs::read_to_string(config).unwrap(), "node:\n    accept: all\n");
}

#[test]
fn the_examples_of_the_configuration_are_valid() {
    let text = fs::read_to_string(root().join("packaging/node.yaml")).unwrap();
    let is_example = |line: &&str| {
        let key = line.trim_start().strip_prefix("# ").unwrap_or_default();
        line.starts_with("    #")
            && (key.starts_with(' ')
                || key.split(' ').next().is_some_and(|word| word.ends_with(':')))
    };
    let prose = |line: &str| line.split(' ').filter(|word| !word.is_empty()).count() > 9;
    let examples = text.lines().filter(is_example).filter(|line| !prose(line));
    let examples: String = examples.map(|line| line.replacen("# ", "", 1) + "\n").collect();
    let stage = Stage::new("examples");
    let config = stage.path("node.yaml");
    fs::write(&config, format!("node:\n{examples}")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_fulmar"))
        .args(["node", "--check", "-c"])
        .arg(&config)
        .output();
    let output = output.unwrap();
    // A machine without the interfaces of the examples says so, with status 1; a file that is not valid is 2.
    let errors = String::from_utf8_lossy(&output.stderr);
    let is_about_interfaces = |line: &str| {
        line.starts_with("fulmar: there is no interface ") || line.starts_with("help: ")
    };
    assert!(matches!(output.status.code(), Some(0 | 1)), "{errors}");
    assert!(errors.lines().all(is_about_interfaces), "{errors}");
    for key in [
        "networks",
        "routes",
        "forwarding",
        "accept",
        "accept_port",
        "targets",
        "metrics",
        "options",
    ] {
        assert!(examples.contains(&format!("    {key}:")), "{key} is not in\n{examples}");
    }
}

#[test]
fn units_pass_systemd_s_check() {
    let stage = Stage::new("units");
    // The programs that units name must exist.
    let prefix = stage.path("prefix").display().to_string();
    install(Path::new(""), &prefix);
    let units = stage.path("prefix/lib/systemd/system");
    let paths: Vec<String> =
        files(&units).iter().map(|name| units.join(name).display().to_string()).collect();
    assert_eq!(paths.len(), 4, "{paths:?}");
    // systemd starts a node again that has failed, and then what the node wants.
    let target = fs::read_to_string(units.join("fulmar-target@.service")).unwrap();
    assert!(target.contains("\nWantedBy=multi-user.target fulmar-server.service\n"), "{target}");
    let args = ["verify", "--man=no"].into_iter().chain(paths.iter().map(String::as_str));
    if let Some(said) =
        output("systemd-analyze", "systemd's check of units", &args.collect::<Vec<_>>())
    {
        assert_eq!(said, "");
    }
}

#[test]
fn manual_pages_have_no_warning() {
    let stage = Stage::new("pages");
    let (own, tools) = (stage.path("own"), stage.path("tools"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    let done = command.arg("man").arg("--dir").arg(&own).arg("--tools").arg(&tools).output();
    assert_eq!(done.unwrap().status.code(), Some(0));
    for directory in [own, tools] {
        for name in files(&directory) {
            let page = directory.join(&name).display().to_string();
            let args = ["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", &page];
            let Some(said) = output("man", "warnings of manual pages", &args) else { return };
            assert_eq!(said, "", "{name}");
        }
    }
}
