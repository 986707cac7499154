//! `fulmar`: a node of Lustre's network in userspace, and the tools to run it.
//!
//! One binary, with [`main`] as its main function. Called as `lnetctl`, `lctl`, `lst`, `lfs` or `mount.fulmar` it
//! acts as that tool. [`demo`] and [`interop`] are public for tests and benchmarks.
//!
//! ```text
//! main ──► the name it was called by ──► a command of fulmar, or a tool of Lustre
//!   node, up, mkfs, target, fsck     servers          lnetctl, lctl, lst, lfs     as Lustre's, over the control socket
//!   mount, cp, warmup                clients                                      or attributes of files on a mount
//!   doctor, tune, sim, link, top, trace, decode       paths, predictions and observation
//! ```
//!
//! A command is a file or a folder of its own, with its options as a type for `clap`; the work is
//! done by the crates below. Manual pages and completion are made from the same types (`manual`).
//! Exit status 0 is success, 1 means that the command failed, 2 that its arguments were wrong.
//! Output goes through `fulmar_text`; a failure says what failed, where, why, and what to do.
// This crate is the command line: it may print and read the environment.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

mod context;
mod cp;
mod decode;
pub mod demo;
mod doctor;
mod fault;
mod fsck;
pub mod interop;
mod lctl;
mod lfs;
mod link;
mod lnetctl;
mod lst;
mod manual;
mod mkfs;
mod mount;
mod mounts;
mod node;
mod reach;
mod shell;
mod sim;
mod target;
mod top;
mod trace;
mod tune;
mod up;
mod warmup;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Lustre's network in userspace: a node, and the tools to run it
#[derive(Debug, Parser)]
#[command(name = "fulmar", version, max_term_width = 100)]
pub(crate) struct Fulmar {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::Args),
    Node(node::Args),
    Mkfs(mkfs::Args),
    Target(target::Args),
    Fsck(fsck::Args),
    Lnetctl(lnetctl::Args),
    Lctl(lctl::Args),
    Lst(lst::Args),
    Lfs(lfs::Args),
    Cp(cp::Args),
    Warmup(warmup::Args),
    Top(top::Args),
    Trace(trace::Args),
    Mount(mount::Args),
    Tune(tune::Args),
    Demo(demo::Args),
    Doctor(doctor::Args),
    Decode(decode::Args),
    Link(Box<link::Args>),
    Interop(interop::Args),
    Sim(sim::Args),
    Completion(manual::Completion),
    Man(manual::Man),
}

/// Runs the command that the process arguments name.
pub fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let called = args.first().and_then(|path| Path::new(path).file_name()?.to_str());
    // These tools have their own exit statuses and messages for an invalid command line.
    match (called, args.get(1).and_then(|arg| arg.to_str())) {
        (Some("lnetctl"), _) => return lnetctl::main(args),
        (Some("lctl"), _) => return lctl::main(args),
        (Some("lst"), _) => return lst::main(&args),
        (_, Some("lnetctl")) => return lnetctl::main(args[1..].to_vec()),
        (_, Some("lctl")) => return lctl::main(args[1..].to_vec()),
        (_, Some("lst")) => return lst::main(&args[1..]),
        _ => {}
    }
    let args = match called {
        Some("mount.fulmar") => mount::helper(&args),
        Some("lfs") => lfs::tool(&args),
        _ => args,
    };
    match Fulmar::parse_from(args).command {
        Command::Up(args) => up::main(args),
        Command::Node(args) => node::main(args),
        Command::Mkfs(args) => mkfs::main(&args),
        Command::Target(args) => target::main(&args),
        Command::Fsck(args) => fsck::main(&args),
        Command::Lfs(args) => lfs::main(args),
        Command::Cp(args) => cp::main(&args),
        Command::Warmup(args) => warmup::main(&args),
        Command::Top(args) => top::main(args),
        Command::Trace(args) => trace::main(&args),
        Command::Mount(args) => mount::main(&args),
        Command::Demo(args) => demo::main(args),
        Command::Tune(args) => tune::main(&args),
        Command::Doctor(args) => doctor::main(args),
        Command::Decode(args) => decode::main(&args),
        Command::Interop(args) => interop::main(&args),
        Command::Link(args) => link::main(*args),
        Command::Sim(args) => sim::main(&args),
        Command::Completion(args) => args.print(),
        Command::Man(args) => args.write(),
        Command::Lnetctl(_) | Command::Lctl(_) | Command::Lst(_) => {
            unreachable!("these commands are handled above")
        }
    }
}
