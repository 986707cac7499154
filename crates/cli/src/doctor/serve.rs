//! `fulmar doctor serve`: the host that serves.

use std::process::ExitCode;

use fulmar_doctor::remote::{Notice, Server, ServerOptions};
use tokio::signal::unix::{SignalKind, signal};

use super::ServeArgs;
use crate::context::{complain, print};

pub(super) fn main(args: &ServeArgs) -> ExitCode {
    let options = ServerOptions { bind: args.bind, port: args.port, from: args.from.clone() };
    let server = match Server::start(&options, |notice| {
        print(&line(&notice));
    }) {
        Ok(server) => server,
        Err(error) => return failed(&error),
    };
    let at: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    print(&format!(
        "Serving at {} (TCP and UDP). On the other host: fulmar doctor <this host>\n",
        at.join(" and ")
    ));
    match interrupted() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&format!("cannot wait for signals: {error}")),
    }
}

fn failed(why: &str) -> ExitCode {
    complain(&format!("fulmar: {why}\n"));
    ExitCode::FAILURE
}

/// Waits for SIGINT or SIGTERM.
fn interrupted() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut int, mut term) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        tokio::select! { _ = int.recv() => {}, _ = term.recv() => {} }
        Ok(())
    })
}

fn line(notice: &Notice) -> String {
    match notice {
        Notice::Began(who) => format!("{who} started checks\n"),
        Notice::Ended(who, time) => format!("{who} finished after {:.1} s\n", time.as_secs_f64()),
        Notice::Refused(who, why) => {
            fulmar_text::printable(&format!("{who} was refused: {why}")) + "\n"
        }
    }
}
