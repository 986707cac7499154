//! `lnetctl import` and `lnetctl export`. Spec: lnet-admin §16.

use std::io::Read;
use std::path::{Path, PathBuf};

use fulmar_base::Errno;
use fulmar_control::api::{
    self, AdminError, ExportAll, NetShow, Outcome, Part, PeerShow, RouteShow,
};
use fulmar_control::config::{LnetConf, Source};
use fulmar_control::show::{self, Route, exit};

use super::query;
use crate::context::{Context, Form, Status, print};

/// Prints what became of each part of the file, and goes on after one that is refused. The exit status is 1 then.
#[derive(Debug, clap::Args)]
pub(super) struct Import {
    /// Add what the file contains; the default
    #[arg(short, long, group = "action")]
    add: bool,
    /// Remove what the file contains
    #[arg(short, long, group = "action")]
    del: bool,
    /// Print what the file contains
    #[arg(short, long, group = "action")]
    show: bool,
    /// Run the pings and discoveries of the file
    #[arg(short, long, group = "action")]
    exec: bool,
    /// Report errors as releases before 2.16 did
    #[arg(short, long)]
    old_api: bool,
    /// File; standard input by default
    file: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(super) struct Export {
    /// Print only what can be imported
    #[arg(short, long)]
    backup: bool,
    /// File to write; standard output by default
    file: Option<PathBuf>,
}

impl Import {
    pub(super) fn run(self, context: &Context) -> Status {
        let older = self.old_api.then(|| context.as_before());
        let context = older.as_ref().unwrap_or(context);
        let parse =
            |source| LnetConf::parse(&source).map_err(|error| (Errno::EINVAL, error.to_string()));
        let conf = match read(self.file.as_deref()).and_then(parse) {
            Ok(conf) => conf,
            Err((errno, error)) => {
                context.tell("import", "file", &format!("import: {error}\n"), errno);
                return exit::of_errno(-errno.0);
            }
        };
        match (self.del, self.show, self.exec) {
            (_, true, _) => show_named(&conf, context),
            (_, _, true) => execute(conf, context),
            (delete, ..) => {
                let op = if delete { "del" } else { "add" };
                let request = api::Import { conf, delete };
                context.query(Form::Listing, op, "import", &request, |done| {
                    report(op, &done.parts, context)
                })
            }
        }
    }
}

/// Prints what became of each part. The status is 1 if any was refused.
fn report(op: &str, parts: &[Part], context: &Context) -> Status {
    let mut status = 0;
    for Part { object, what, outcome } in parts {
        let name = format!("{object} {what}");
        match outcome {
            Outcome::Done(done) if !context.json => {
                print(&format!("{}: {done}\n", name.trim_end()));
            }
            Outcome::Done(_) => {}
            Outcome::Failed(error) => {
                status = exit::PARTLY;
                if !context.json {
                    let hint =
                        error.hint.as_ref().map_or(String::new(), |hint| format!(": {hint}"));
                    let error = error.clone().with_hint(format!("{what}{hint}"));
                    context.refuse(Form::Listing, op, object, &error);
                }
            }
        }
    }
    if context.json {
        print(&format!("{}\n", serde_json::json!({ "import": parts })));
    }
    status
}

fn read(file: Option<&Path>) -> Result<Source, (Errno, String)> {
    let (name, text) = match file {
        Some(path) => (path.display().to_string(), std::fs::read_to_string(path)),
        None => {
            let mut text = String::new();
            let read = std::io::stdin().lock().read_to_string(&mut text);
            ("standard input".to_owned(), read.map(|_| text))
        }
    };
    match text {
        Ok(text) => Ok(Source::new(name, text)),
        Err(error) => {
            let errno = Errno(error.raw_os_error().unwrap_or(Errno::EIO.0));
            Err((errno, format!("cannot read {name}: {error}")))
        }
    }
}

fn show_named(conf: &LnetConf, context: &Context) -> Status {
    let nets = context.query(Form::Listing, "show", "import", &NetShow::default(), |mut nets| {
        nets.retain(|net| conf.nets.iter().any(|named| named.net == net.net));
        context.show(&show::net_show(&nets, 0, context.dialect))
    });
    let routes = match nets {
        0 if !conf.routes.is_empty() => {
            context.query(Form::Listing, "show", "import", &RouteShow {}, |mut routes| {
                let named = |route: &Route| {
                    conf.routes.iter().any(|r| (r.net, r.gateway) == (route.net, route.gateway))
                };
                routes.retain(named);
                context.show(&show::route_show(&routes, 1))
            })
        }
        status => status,
    };
    if routes != 0 || conf.peers.is_empty() {
        return routes;
    }
    context.query(Form::Listing, "show", "import", &PeerShow::default(), |mut peers| {
        peers.retain(|peer| conf.peers.iter().any(|named| named.primary == peer.primary));
        context.show(&show::peer_show(&peers, 0, context.dialect))
    })
}

fn execute(conf: LnetConf, context: &Context) -> Status {
    let mut status = 0;
    if let Some(asked) = conf.ping {
        let (source, timeout, nids) = (asked.source, asked.timeout, asked.nids);
        status = query::ping(&api::Ping { nids, source, timeout }, context);
    }
    if let Some(asked) = conf.discover {
        let (source, timeout, nids) = (asked.source, asked.timeout, asked.nids);
        let request = api::Discover { nids, source, timeout, force: false };
        status = query::discover(&request, context).max(status);
    }
    status
}

impl Export {
    pub(super) fn run(self, context: &Context) -> Status {
        context.query(Form::Classic, "export", "configuration", &ExportAll {}, |export| {
            let report = if self.backup {
                show::backup(&export.to_conf())
            } else {
                export.report(context.dialect)
            };
            let Some(path) = &self.file else { return context.show(&report) };
            let text =
                if context.json { report.to_json() } else { report.to_yaml(context.dialect) };
            std::fs::write(path, text).map_or_else(
                |error| {
                    let descr = format!("cannot write {}: {error}", path.display());
                    let errno = Errno(error.raw_os_error().unwrap_or(Errno::EIO.0));
                    let error = AdminError::new(errno, descr);
                    context.refuse(Form::Classic, "export", "configuration", &error);
                    exit::FAILED
                },
                |()| 0,
            )
        })
    }
}
