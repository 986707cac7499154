//! The targets of a mount as attributes of its files: which there are, how full each is, what somebody uses there, and
//! whether it answers.
//! They are how programs such as `lfs df` learn that.

use std::fmt::Write;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lustre_wire::format::STATFS;
use fulmar_lustre_wire::mdt::Statfs;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Content, Uuid};
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::{Request, TargetKind};
use futures_util::future::{Either, select};

use crate::FsTarget;
use crate::machine::context::Context;
use crate::members::{ping, statfs};
use crate::quota::{self, QuotaOwner, QuotaQuestion};

/// How long a target is waited for.
const TIMEOUT: Duration = Duration::from_secs(20);

/// What is asked of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    Statfs,
    Ping,
    Quota(QuotaOwner, QuotaQuestion),
}

/// A target by its kind and its index, as [`FsTarget::place`] names it.
pub(crate) type Place = (TargetKind, u32);

/// Returns the target that a text such as `OST:0` names.
pub(crate) fn place(text: &str) -> Option<Place> {
    let (kind, index) = text.split_once(':')?;
    Some((kind_of(kind)?, index.parse().ok()?))
}

fn kind_of(text: &str) -> Option<TargetKind> {
    [TargetKind::Mgs, TargetKind::Mdt, TargetKind::Ost]
        .into_iter()
        .find(|kind| FsTarget::name_of(*kind) == text)
}

/// Returns the targets in the value of [`TARGETS`](super::special::TARGETS).
///
/// # Errors
/// EPROTO if it is not such a value.
pub fn read_targets(value: &[u8]) -> Result<Vec<FsTarget>, Errno> {
    let text = std::str::from_utf8(value).map_err(|_| Errno::EPROTO)?;
    text.lines().map(|line| read(line).ok_or(Errno::EPROTO)).collect()
}

fn read(line: &str) -> Option<FsTarget> {
    let mut fields = line.split(' ');
    let mut field = || fields.next();
    let (kind, index) = place(field()?)?;
    let (is_active, uuid, device) = (field()? == "active", field()?, field()?.to_owned());
    let nids = field()?.split(',').filter(|nid| !nid.is_empty());
    let nids = nids.map(|nid| nid.parse().ok()).collect::<Option<_>>()?;
    Some(FsTarget { kind, index, uuid: Uuid::new(uuid)?, device, nids, is_active })
}

fn write(target: &FsTarget, text: &mut String) {
    let FsTarget { uuid, device, nids, is_active, .. } = target;
    let state = if *is_active { "active" } else { "inactive" };
    let nids: Vec<String> = nids.iter().map(ToString::to_string).collect();
    let _ = writeln!(text, "{} {state} {uuid} {device} {}", target.place(), nids.join(","));
}

impl Context {
    /// Returns the value of [`TARGETS`](super::special::TARGETS). No round trip.
    pub(crate) fn targets(&self) -> Result<Vec<u8>, Errno> {
        let core = self.core();
        let mount = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?;
        let (mut text, number) = (String::new(), mount.instance());
        for target in mount.configuration.targets() {
            let device = format!("{}-{number}", target.device);
            write(&FsTarget { device, ..target.clone() }, &mut text);
        }
        if let Some(first) = mount.address.mgs.first() {
            let (kind, uuid) = (TargetKind::Mgs, Uuid::new("MGS").expect("it is short"));
            let (device, nids) = (format!("MGC{first}"), mount.address.mgs.clone());
            let mgs = FsTarget { kind, index: 0, uuid, device, nids, is_active: true };
            write(&mgs, &mut text);
        }
        Ok(text.into_bytes())
    }

    /// Asks a target, and returns its answer: a [`Statfs`] or a [`QuotaLimits`](fulmar_lustre_wire::quota::QuotaLimits) as on
    /// the wire, or nothing. One round trip.
    ///
    /// # Errors
    /// ENODATA if there is no such target or it is not active, EAGAIN if it is not connected, ETIMEDOUT if it does
    /// not answer, and what it says.
    pub(crate) async fn ask(&self, of: Place, question: Question) -> Result<Vec<u8>, Errno> {
        let import = self.import_of(of)?;
        let request = match question {
            Question::Statfs | Question::Quota(..) if of.0 == TargetKind::Mgs => {
                return Err(Errno::EOPNOTSUPP);
            }
            Question::Quota(owner, asked) => quota::request(of.0, owner, asked),
            Question::Statfs => statfs(of.0),
            Question::Ping => ping(),
        };
        let reply = self.request_in_time(import, request).await?;
        match question {
            Question::Statfs => {
                let found: Statfs = reply.require(&STATFS).map_err(|_| Errno::EPROTO)?;
                Ok(found.to_bytes())
            }
            Question::Quota(..) => Ok(quota::answer(&reply)?.to_bytes()),
            Question::Ping => Ok(Vec::new()),
        }
    }

    fn import_of(&self, (kind, index): Place) -> Result<ImportId, Errno> {
        let core = self.core();
        let mount = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?;
        let import = match kind {
            TargetKind::Mgs => mount.mgs.filter(|_| index == 0),
            TargetKind::Mdt => mount.mdts.get(&index).copied(),
            _ => mount.osts.get(&index).copied(),
        };
        let import = import.ok_or(Errno::ENODATA)?;
        let is_there = core.peer(import).is_some_and(|peer| peer.is_connected());
        if is_there { Ok(import) } else { Err(Errno::EAGAIN) }
    }

    async fn request_in_time(
        &self,
        import: ImportId,
        request: Request,
    ) -> Result<Box<Message<'static>>, Errno> {
        let (answer, late) = (self.request(import, request), self.sleep(TIMEOUT));
        match select(Box::pin(answer), Box::pin(late)).await {
            Either::Left((reply, _)) => reply,
            Either::Right(_) => Err(Errno::ETIMEDOUT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_they_were_written() {
        let target = |index, is_active, nids: &[&str]| FsTarget {
            kind: TargetKind::Ost,
            index,
            uuid: Uuid::new(&format!("lv-OST{index:04x}_UUID")).unwrap(),
            device: format!("lv-OST{index:04x}-osc-ff11000012345678"),
            nids: nids.iter().map(|nid| nid.parse().unwrap()).collect(),
            is_active,
        };
        let all = [target(0, true, &["10.99.0.2@tcp", "fd00::1@tcp1"]), target(26, false, &[])];
        let mut text = String::new();
        all.iter().for_each(|target| write(target, &mut text));
        assert_eq!(read_targets(text.as_bytes()).unwrap(), all);
        for wrong in ["OST:0", "OSD:0 active a b ", "OST:x active a b ", "OST:0 active a b nid"] {
            assert_eq!(read_targets(wrong.as_bytes()), Err(Errno::EPROTO), "{wrong}");
        }
        assert_eq!(
            (place("MDT:1"), place("MDT"), place("x:1")),
            (Some((TargetKind::Mdt, 1)), None, None)
        );
    }
}
