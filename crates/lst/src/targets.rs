//! The nodes that `stat` and `show_error` query: groups, or NIDs. Spec: lnet-selftest §16.15.

use fulmar_base::Errno;
use fulmar_selftest::console::{Command, NodeAnswer, Reply, Stats, Target};

use super::nids::expand;
use super::tool::{About, CommandResult, Tool, status};

/// Nodes, with the name that the user gave.
#[derive(Debug)]
pub(super) struct NamedTarget {
    pub(super) name: String,
    target: Target,
}

/// Resolves the operands. Scripts leave empty ones in place of an option: these are ignored.
pub(super) fn resolve(tool: &mut Tool<'_>, operands: &[String]) -> CommandResult<Vec<NamedTarget>> {
    let mut all = Vec::new();
    for name in operands.iter().filter(|name| !name.is_empty()) {
        all.push(NamedTarget { name: name.clone(), target: resolve_one(tool, name)? });
    }
    if all.is_empty() { Err(status::USAGE) } else { Ok(all) }
}

fn resolve_one(tool: &mut Tool<'_>, name: &str) -> CommandResult<Target> {
    let failed = format!("Failed to get count of nodes from {name}");
    match tool.call(Command::ShowGroup { group: name.to_owned() })? {
        Ok(_) => Ok(Target::Group(name.to_owned())),
        Err(Errno::ENOENT) => match expand(name) {
            Ok(nodes) => Ok(Target::Nodes(nodes)),
            Err(error) => {
                tool.complain(&format!("{failed}: {}", Errno::ENOENT));
                tool.hint(&format!(
                    "no group has this name, and it is not a NID: {}",
                    error.hint()
                ));
                Err(status::LOCAL)
            }
        },
        Err(errno) => Err(tool.refused(About { object: "group", failed: &failed }, errno)),
    }
}

impl NamedTarget {
    /// Reads the counters of the nodes.
    pub(super) fn stats(
        &self,
        tool: &mut Tool<'_>,
        timeout: u32,
    ) -> CommandResult<Vec<NodeAnswer<Stats>>> {
        let about = About { object: "stat", failed: &format!("Failed to stat {}", self.name) };
        match tool.ask(about, Command::Stat { target: self.target.clone(), timeout })? {
            Reply::Stats(answers) => Ok(answers),
            reply => Err(tool.garbled(&reply)),
        }
    }
}
