//! `fulmar doctor check`: the host that examines.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use fulmar_doctor::examine::Progress;
use fulmar_doctor::finding::Needs;
use fulmar_doctor::{Check, Level, Options, Report, bundle, examine, render};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{CheckArgs, INVALID};
use crate::context::{complain, print};

pub(super) fn main(args: &CheckArgs) -> ExitCode {
    match requests(args) {
        Ok(requests) => run(args, &requests),
        Err(wrong) => {
            complain(&format!("fulmar: {wrong}\n"));
            ExitCode::from(INVALID)
        }
    }
}

/// Returns what to examine: this host, or each remote host.
fn requests(args: &CheckArgs) -> Result<Vec<Options>, String> {
    let only = if args.only.is_empty() { Check::ALL.to_vec() } else { args.only.clone() };
    let checks: Vec<Check> = only.into_iter().filter(|check| !args.skip.contains(check)).collect();
    if checks.is_empty() {
        return Err("no check is left: --skip excludes all checks of --only".to_owned());
    }
    let path = args.only.iter().find(|check| check.needs() != Needs::Nothing);
    if let Some(check) = path.filter(|_| args.targets.is_empty()) {
        let word = check.word();
        return Err(format!("{word} needs a remote host: fulmar doctor HOST --only {word}"));
    }
    if args.targets.first().is_some_and(|word| word == "serve") {
        return Err("serve has options of its own: fulmar doctor serve [OPTIONS]".to_owned());
    }
    let options = |target: Option<String>| Options {
        target,
        bind: args.bind,
        port: args.port,
        lnet_port: args.lnet_port,
        control: args.which.path().map(Path::to_owned),
        checks: checks.clone(),
        time: Duration::from_secs(args.time),
        streams: args.streams,
        udp_rate: args.udp_rate,
        timeout: Duration::from_secs(args.timeout),
    };
    Ok(if args.targets.is_empty() {
        vec![options(None)]
    } else {
        args.targets.iter().cloned().map(Some).map(options).collect()
    })
}

fn run(args: &CheckArgs, requests: &[Options]) -> ExitCode {
    let live = !args.json && std::io::stdout().is_terminal();
    let mut reports = Vec::new();
    for options in requests {
        if let Some(target) = options.target.as_ref().filter(|_| live) {
            print(&format!("Examining the path to {target}:\n"));
        }
        let running = if live {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout())
        } else {
            ProgressBar::hidden()
        };
        let running = running.with_style(ProgressStyle::default_spinner());
        let report = examine(options, &mut |progress| show(&running, &progress));
        running.finish_and_clear();
        if live {
            print("\n");
        }
        if !args.json {
            let between = if reports.is_empty() { "" } else { "\n" };
            print(&format!("{between}{}", render::report(&report)));
        }
        reports.push(report);
    }
    if args.json {
        print(&document(&reports));
    }
    if let Some(path) = &args.bundle {
        if let Err(error) = bundle::write(path, &reports, args.which.path()) {
            complain(&format!("fulmar: {error}\n"));
            return ExitCode::FAILURE;
        }
        complain(&format!("Wrote {}.\n", path.display()));
    }
    if reports.iter().any(|report| report.worst == Level::Error) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Returns one report as an object, and several as a list.
fn document(reports: &[Report]) -> String {
    let text = match reports {
        [report] => serde_json::to_string_pretty(report),
        reports => serde_json::to_string_pretty(reports),
    };
    text.expect("a report is a document") + "\n"
}

/// Shows the running check, and a line for each completed one.
fn show(running: &ProgressBar, progress: &Progress<'_>) {
    match progress {
        Progress::Started(check) => running.set_message(format!("{} ...", check.word())),
        Progress::Finished(checked) => running.println(render::progress(checked)),
    }
}
