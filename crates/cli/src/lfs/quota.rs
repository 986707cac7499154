//! `lfs quota`: what a user, a group or a project uses, and its limits. The format is that of Lustre's lfs.
//! Spec: mdt-ost §7.11, §14.6.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::ArgAction;
use fulmar_base::Errno;
use fulmar_client::QuotaOwner;
use fulmar_lustre_wire::quota::{QuotaKind, QuotaLimits};
use fulmar_rpc::import::TargetKind;
use fulmar_text::significant;
use serde_json::{Value, json};

use super::whole::{Whole, WholeArgs};
use super::{fail, ids};
use crate::context::{Status, complain, print};

/// Print what a user, a group or a project uses, and its limits
///
/// Without -u, -g or -p: for the user of the command, and for its group. On a mount, the superuser may ask for
/// everybody, others for themselves, their groups and projects.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true, after_help = LIMITS)]
pub(super) struct Args {
    #[command(flatten)]
    whole: WholeArgs,
    /// A user, by name or number
    #[arg(short, long, value_name = "USER", conflicts_with_all = ["group", "project"])]
    user: Option<String>,
    /// A group, by name or number
    #[arg(short, long, value_name = "GROUP", conflicts_with = "project")]
    group: Option<String>,
    /// A project, by number
    #[arg(short, long, value_name = "ID")]
    project: Option<u32>,
    /// Blocks in units such as M, of 1024
    #[arg(short, long = "human-readable")]
    human: bool,
    /// No headings
    #[arg(short, long)]
    quiet: bool,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

const LIMITS: &str = "\
A * marks a use beyond a limit; the grace is what is left of the time for which the soft limit (quota) may be
exceeded. Numbers in [] lack what targets use that do not answer.

What targets of fulmar enforce: MDTs enforce the limits of files (iquota, ilimit), as soon as they are set. OSTs
count blocks and enforce no limits of them; MDTs refuse to set such limits, so bquota and blimit are 0. Targets of
kernel servers enforce both, for what their parameters quota_slave.enabled say.

Examples:
  fulmar lfs quota -u alice /mnt/lustre
  fulmar lfs quota -h -p 1000 10.0.0.1@tcp:/lustre";

/// An owner, and the name that it has in the output.
type NamedOwner = (QuotaOwner, String);

pub(super) fn run(args: &Args) -> Status {
    let owners = match args.owners() {
        Ok(owners) => owners,
        Err(why) => return fail("lfs quota", &why),
    };
    let all = match args.whole.reach("lfs quota") {
        Ok(all) => all,
        Err(status) => return status,
    };
    let mut status = 0;
    let mut documents = Vec::new();
    for mut whole in all {
        for named in &owners {
            match Quota::ask(&mut whole, named) {
                Ok(quota) if args.whole.json => documents.push(quota.document(&whole.place)),
                Ok(quota) => {
                    let place = args.whole.given().unwrap_or_else(|| whole.place.clone());
                    print(&quota.text(&place, now(), args));
                    if !quota.is_whole {
                        complain(INACCURATE);
                        status = status.max(1);
                    }
                }
                Err(errno) => {
                    complain(&format!("fulmar lfs quota: {} {}: {errno}\n", whole.place, named.0));
                    status = Status::try_from(errno.0.unsigned_abs()).unwrap_or(1).max(status);
                }
            }
        }
    }
    if args.whole.json {
        print(&format!("{:#}\n", Value::from(documents)));
    }
    status
}

const INACCURATE: &str =
    "fulmar lfs quota: some targets do not answer: what is in [] lacks what they know\n";

impl Args {
    fn owners(&self) -> Result<Vec<NamedOwner>, String> {
        let owner = |kind, id| QuotaOwner { kind, id };
        Ok(match (&self.user, &self.group, self.project) {
            (Some(user), _, _) => {
                let id = ids::number(ids::USERS, user)?;
                vec![(owner(QuotaKind::USER, id), user.clone())]
            }
            (_, Some(group), _) => {
                let id = ids::number(ids::GROUPS, group)?;
                vec![(owner(QuotaKind::GROUP, id), group.clone())]
            }
            (_, _, Some(id)) => vec![(owner(QuotaKind::PROJECT, id), id.to_string())],
            _ => {
                let uid = rustix::process::getuid().as_raw();
                let gid = rustix::process::getgid().as_raw();
                vec![
                    (owner(QuotaKind::USER, uid), ids::name(ids::USERS, uid)),
                    (owner(QuotaKind::GROUP, gid), ids::name(ids::GROUPS, gid)),
                ]
            }
        })
    }
}

/// The limits and the use of an owner.
#[derive(Clone, Debug)]
struct Quota {
    named: NamedOwner,
    limits: QuotaLimits,
    /// Bytes.
    space: u64,
    files: u64,
    /// Whether all targets have answered.
    is_whole: bool,
}

impl Quota {
    fn ask(whole: &mut Whole, named: &NamedOwner) -> Result<Self, Errno> {
        let (limits, used) = whole.quota(named.0);
        let mut quota =
            Self { named: named.clone(), limits: limits?, space: 0, files: 0, is_whole: true };
        for (kind, answer) in used {
            match answer {
                Ok(used) => {
                    quota.space = quota.space.saturating_add(used.space);
                    // An OST counts objects.
                    let files = if kind == TargetKind::Mdt { used.inodes } else { 0 };
                    quota.files = quota.files.saturating_add(files);
                }
                Err(_) => quota.is_whole = false,
            }
        }
        Ok(quota)
    }

    fn text(&self, place: &str, now: u64, args: &Args) -> String {
        let mut text = if args.quiet { String::new() } else { self.heading() };
        // A long name has a line of its own.
        if place.len() > 15 {
            text += &format!("{place}\n{:15}", "");
        } else {
            text += &format!("{place:>15}");
        }
        let used = |number: String| if self.is_whole { number } else { format!("[{number}]") };
        let blocks = |kib| if args.human { human(kib) } else { format!("{kib}") };
        let (limits, kib) = (&self.limits, self.space.div_ceil(1024));
        let state = State::of(kib, (limits.block_hard, limits.block_soft, limits.block_time), now);
        text += &columns(
            [used(blocks(kib)), blocks(limits.block_soft), blocks(limits.block_hard)],
            &state,
        );
        let of_files = (limits.inode_hard, limits.inode_soft, limits.inode_time);
        let state = State::of(self.files, of_files, now);
        let [soft, hard] = [limits.inode_soft, limits.inode_hard].map(|limit| limit.to_string());
        text += &columns([used(self.files.to_string()), soft, hard], &state);
        text + " \n"
    }

    fn heading(&self) -> String {
        let (owner, name) = &self.named;
        let kind = owner.kind_name();
        format!(
            "Disk quotas for {kind} {name} ({}id {}):\n\
             {:>15} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} \n",
            &kind[..1],
            owner.id,
            "Filesystem",
            "kbytes",
            "bquota",
            "blimit",
            "bgrace",
            "files",
            "iquota",
            "ilimit",
            "igrace"
        )
    }

    /// The same for programs.
    fn document(&self, place: &str) -> Value {
        let ((owner, name), limits) = (&self.named, &self.limits);
        json!({
            "file_system": place,
            "kind": owner.kind_name(),
            "id": owner.id,
            "name": name,
            "bytes": self.space,
            "files": self.files,
            "complete": self.is_whole,
            "soft_limit_kib": limits.block_soft,
            "hard_limit_kib": limits.block_hard,
            "grace_end": limits.block_time,
            "soft_limit_files": limits.inode_soft,
            "hard_limit_files": limits.inode_hard,
            "grace_end_files": limits.inode_time,
        })
    }
}

/// How a use is in relation to its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Within,
    /// At the hard limit.
    Full,
    /// Beyond the soft limit, with what is left of the grace.
    Grace(String),
}

impl State {
    fn of(used: u64, (hard, soft, end): (u64, u64, u64), now: u64) -> Self {
        match (hard, soft, end) {
            (1.., _, _) if used >= hard => Self::Full,
            (_, 1.., 1..) if end > now => Self::Grace(left(end - now)),
            (_, 1.., 1..) => Self::Grace("none".to_owned()),
            _ => Self::Within,
        }
    }
}

fn columns([used, soft, hard]: [String; 3], state: &State) -> String {
    let mark = if *state == State::Within { ' ' } else { '*' };
    let grace = match state {
        State::Grace(left) => left,
        _ => "-",
    };
    format!(" {used:>7}{mark} {soft:>6} {hard:>7} {grace:>7}")
}

/// Returns a number of KiB with a unit.
fn human(kib: u64) -> String {
    let units = [(1_u64 << 40, 'P'), (1 << 30, 'T'), (1 << 20, 'G'), (1 << 10, 'M')];
    match units.iter().find(|(unit, _)| kib > *unit) {
        Some((unit, letter)) => {
            let scaled = significant(kib as f64 / *unit as f64, 4).replace(',', "");
            format!("{scaled:>5}{letter}")
        }
        None => format!("{kib}k"),
    }
}

/// Returns a time as weeks, days, hours, minutes and seconds, without those that are zero.
fn left(mut seconds: u64) -> String {
    let mut text = String::new();
    for (unit, letter) in [(604_800, 'w'), (86_400, 'd'), (3600, 'h'), (60, 'm'), (1, 's')] {
        if seconds >= unit {
            text += &format!("{}{letter}", seconds / unit);
        }
        seconds %= unit;
    }
    text
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::parsed;

    fn args(words: &str) -> Args {
        parsed(&format!("quota {words}")).unwrap()
    }

    fn quota(space: u64, files: u64, limits: QuotaLimits) -> Quota {
        let owner = QuotaOwner { kind: QuotaKind::USER, id: 0 };
        Quota { named: (owner, "root".to_owned()), limits, space, files, is_whole: true }
    }

    /// As Lustre's lfs of 2.17 has printed it on a client.
    #[test]
    fn the_text_is_that_of_lfs() {
        let quota = quota(4324 << 10, 274, QuotaLimits::default());
        assert_eq!(
            quota.text(".", 0, &args(".")),
            "Disk quotas for usr root (uid 0):\n     \
             Filesystem  kbytes  bquota  blimit  bgrace   files  iquota  ilimit  igrace \n              \
             .    4324       0       0       -     274       0       0       - \n"
        );
        let long = quota.text("/a/path/that/is/long", 0, &args("-q -h ."));
        assert_eq!(
            long,
            "/a/path/that/is/long\n                 4.223M      0k      0k       -     274       0       \
             0       - \n"
        );
    }

    #[test]
    fn a_use_beyond_a_limit_is_marked() {
        let limits = QuotaLimits {
            block_hard: 10,
            inode_hard: 9,
            inode_soft: 5,
            inode_time: 90_061 + 100,
            ..QuotaLimits::default()
        };
        let mut quota = quota(10 << 10, 6, limits);
        let row = |quota: &Quota, now| quota.text("/mnt", now, &args("-q ."));
        assert_eq!(
            row(&quota, 100),
            "           /mnt      10*      0      10       -       6*      5       9 1d1h1m1s \n"
        );
        assert!(row(&quota, 1 << 40).contains("       6*      5       9    none "));
        quota.is_whole = false;
        assert!(row(&quota, 0).contains("    [10]* "));
    }

    #[test]
    fn sizes_have_units() {
        let shown = [0, 1024, 1025, 4324, 3 << 20, 1 << 31, 5 << 41].map(human);
        assert_eq!(shown, ["0k", "1024k", "1.001M", "4.223M", "    3G", "    2T", "   10P"]);
    }

    #[test]
    fn owners_are_names_or_numbers() {
        let owner = |words: &str| args(words).owners().map(|all| all[0].0.to_string());
        assert_eq!(owner("-u root .").unwrap(), "usr:0");
        assert_eq!(owner("-g 12 .").unwrap(), "grp:12");
        assert_eq!(owner("-p 7 .").unwrap(), "prj:7");
        assert_eq!(args(".").owners().unwrap().len(), 2);
        assert!(owner("-u no-user-of-this-name .").unwrap_err().contains("give a number"));
    }
}
