//! Extended attributes that are not kept as such: the layout of a file, its FID, paths of FIDs, the targets, and the
//! parameters of the mount.
//!
//! They are how programs on a mount, such as `lfs`, get and set what no other call of a file system has.
//! Spec: mdt-ost §11.1, §22.11.
//!
//! Any file has those of the mount: its targets, how full each is, what a user uses there and
//! whether it answers (`targets`), and its parameters (`tunables`, their texts in `figures`). So
//! `lfs` and `lctl` on a mount need no connection of their own, and have the permissions of their
//! process. `lctl get_param` asks every mount of the machine and its node, unless `--control` names
//! the node. `llite.*.stats` counts the operations that reach the client (`operations`), not those
//! that a kernel answers from its own cache; a write resets counters. Parameters are set by the
//! superuser only, and until the mount ends; limits that a kernel's client has for each target are
//! those of all OSTs of the mount, as its cache has one set of them. A file with a given layout is
//! made by `mknod`, which gives it none, and then gets it by the attribute.

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{
    GETATTR, LAYOUT as EA_OF_REPLY, LOCK_REQUEST, MDT_BODY, NEW_LAYOUT, REINT, REINT_SETATTR,
};
use fulmar_lustre_wire::layout::{LmvUserMd, LovMd};
use fulmar_lustre_wire::ldlm::InodeBits;
use fulmar_lustre_wire::mdt::{MdtBody, ReintChange, ReintOp, SetAttr, Valid, XattrFlags};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Content, Fid};
use fulmar_rpc::import::Request;

use super::caller::{CAP_DAC_READ_SEARCH, Caller};
use super::close::CloseReport;
use super::inode::is_regular;
use super::open::OpenOptions;
use super::request::{body, body_room, given_up, record};
use super::targets::{Place, Question, place};
use crate::machine::context::Context;
use crate::quota::QuotaQuestion;

pub use super::targets::read_targets;
pub use super::trace::{TraceEntry, TracePart, read_trace};

/// The layout of a file, or the one that new files of a directory get.
pub const LAYOUT: &[u8] = b"lustre.lov";
/// The stripes of a directory: a [`LmvUserMd`] with the MDT of each. Read-only.
pub const DIRECTORY_STRIPES: &[u8] = b"lustre.lmv";
/// What directories in a directory are made with: a [`LmvUserMd`].
pub const DIRECTORY_DEFAULT: &[u8] = b"lustre.dmv";
/// Set on a directory, it makes one in it: the permissions in octal digits, a blank, the name, a NUL, and a
/// [`LmvUserMd`].
pub const NEW_DIRECTORY: &[u8] = b"lustre.mkdir";
/// The FID of a file, as text. Read-only.
pub const FID: &[u8] = b"lustre.fid";
/// With a FID behind it, `lustre.fid2path.[0x200000401:0x2:0x0]`: the paths of that FID, each with a NUL at
/// its end. Read-only.
pub const PATHS: &[u8] = b"lustre.fid2path.";

/// The targets of the file system, for [`read_targets`]. Read-only.
pub const TARGETS: &[u8] = b"lustre.targets";
/// With a target behind it, `lustre.statfs.OST:0`: its size and use, a [`Statfs`](fulmar_lustre_wire::mdt::Statfs).
/// Read-only.
pub const STATFS: &[u8] = b"lustre.statfs.";
/// With a target behind it, `lustre.ping.OST:0`: empty if it answers. Read-only.
pub const PING: &[u8] = b"lustre.ping.";
/// With an owner and a target behind it, `lustre.quota.used.usr:1000.OST:0`: what the owner uses there, a
/// [`QuotaLimits`](fulmar_lustre_wire::quota::QuotaLimits). Read-only.
pub const QUOTA_USED: &[u8] = b"lustre.quota.used.";
/// With an owner and the first MDT behind it, `lustre.quota.limits.usr:1000.MDT:0`: its limits. Read-only.
pub const QUOTA_LIMITS: &[u8] = b"lustre.quota.limits.";
/// Its value is asked for to bring what the file is and its data into the cache of the mount, and to keep it open there:
/// the bytes of data, and 1 if it is kept open.
pub const WARM: &[u8] = b"lustre.warm.data";
/// The same without the data.
pub const WARM_STATE: &[u8] = b"lustre.warm.state";
/// With a number behind it, `lustre.trace.17`: the RPCs of the mount from that one on, for [`read_trace`]; with `now`, none
/// yet. They are noted as long as somebody reads them, and the superuser may. Read-only.
pub const TRACE: &[u8] = b"lustre.trace.";
/// With a number behind it, `lustre.parameters.0`: names of parameters of the mount, each with slashes and on a line, from
/// the one with that number on; as many as fit. Read-only.
pub const PARAMETERS: &[u8] = b"lustre.parameters.";
/// With such a name behind it: its value, as text. The superuser may set some.
pub const PARAMETER: &[u8] = b"lustre.parameter.";

/// The oldest lines of the debug log of the mount's process, which are then no longer there; none if it is empty. For the
/// superuser, read-only.
pub const DEBUG_LOG: &[u8] = b"lustre.debug.log";

/// The room for a layout.
const LAYOUT_MAX: u32 = 64 << 10;

/// An attribute that is not kept as such.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Layout,
    DirectoryStripes,
    DirectoryDefault,
    NewDirectory,
    Fid,
    /// The paths of a file.
    Paths(Fid),
    Targets,
    Target(Question, Place),
    /// The file, with its data or without.
    Warm(bool),
    /// RPCs from this one on, or from now on.
    Trace(Option<u64>),
    /// Names of parameters from this one on.
    Parameters(usize),
    Parameter(String),
    DebugLog,
}

impl Special {
    /// Returns what an attribute is; `None` for one of the MDT's.
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        match name {
            LAYOUT => Some(Self::Layout),
            DIRECTORY_STRIPES => Some(Self::DirectoryStripes),
            DIRECTORY_DEFAULT => Some(Self::DirectoryDefault),
            NEW_DIRECTORY => Some(Self::NewDirectory),
            FID => Some(Self::Fid),
            TARGETS => Some(Self::Targets),
            DEBUG_LOG => Some(Self::DebugLog),
            WARM => Some(Self::Warm(true)),
            WARM_STATE => Some(Self::Warm(false)),
            _ => {
                let asked = [(STATFS, Question::Statfs), (PING, Question::Ping)];
                for (prefix, question) in asked {
                    if let Some(of) = name.strip_prefix(prefix) {
                        return Some(Self::Target(question, place(std::str::from_utf8(of).ok()?)?));
                    }
                }
                let text = |prefix| name.strip_prefix(prefix).map(std::str::from_utf8);
                let asked =
                    [(QUOTA_USED, QuotaQuestion::Used), (QUOTA_LIMITS, QuotaQuestion::Limits)];
                for (prefix, question) in asked {
                    if let Some(of) = text(prefix) {
                        let (owner, of) = of.ok()?.split_once('.')?;
                        let question = Question::Quota(owner.parse().ok()?, question);
                        return Some(Self::Target(question, place(of)?));
                    }
                }
                if let Some(from) = text(TRACE) {
                    return match from.ok()? {
                        "now" => Some(Self::Trace(None)),
                        from => from.parse().ok().map(|from| Self::Trace(Some(from))),
                    };
                }
                if let Some(from) = text(PARAMETERS) {
                    return from.ok()?.parse().ok().map(Self::Parameters);
                }
                if let Some(of) = text(PARAMETER) {
                    return of.ok().map(|of| Self::Parameter(of.to_owned()));
                }
                let fid = text(PATHS)?.ok()?;
                fid.parse().ok().map(Self::Paths)
            }
        }
    }
}

impl Context {
    /// Returns the value of such an attribute. No round trip for a FID, one for each path, and one for a
    /// layout that is not cached; as many as needed to bring a file into the cache.
    ///
    /// # Errors
    /// ENODATA if there is none, EPERM for paths that the caller might not find and quotas of others, and what the server
    /// says.
    pub(crate) async fn get_special(
        &self,
        caller: &Caller,
        fid: Fid,
        which: Special,
    ) -> Result<Vec<u8>, Errno> {
        match which {
            Special::Layout if is_regular(self.attributes(caller, fid).await?.mode) => {
                let layout = self.layout(caller, fid).await?;
                if layout.bytes.is_empty() { Err(Errno::ENODATA) } else { Ok(layout.bytes.clone()) }
            }
            Special::Layout => self.default_layout(caller, fid).await,
            Special::DirectoryStripes => self.stripes_of(caller, fid).await,
            Special::DirectoryDefault => self.directory_default(caller, fid).await,
            Special::NewDirectory => Err(Errno::ENODATA),
            Special::Fid => Ok(fid.to_string().into_bytes()),
            Special::Targets => self.targets(),
            Special::Target(Question::Quota(owner, _), _) if !owner.may_be_asked_by(caller) => {
                Err(Errno::EPERM)
            }
            Special::Target(question, of) => self.ask(of, question).await,
            Special::Warm(with_data) => {
                let (bytes, is_kept) = self.warm(caller, fid, with_data).await?;
                Ok(format!("{bytes} {}\n", u8::from(is_kept)).into_bytes())
            }
            Special::Trace(from) => self.trace(caller, from),
            Special::Parameters(from) => self.tunables(from),
            Special::Parameter(name) => self.tunable(&name),
            Special::DebugLog => self.take_debug_log(caller),
            Special::Paths(_) if !caller.has(CAP_DAC_READ_SEARCH) => Err(Errno::EPERM),
            Special::Paths(of) => {
                let paths = self.paths_of(of).await?;
                Ok(paths.into_iter().flat_map(|path| [path, vec![0]]).flatten().collect())
            }
        }
    }

    /// Sets or removes such an attribute. One round trip for a directory; two for a file, which must not
    /// have a layout yet.
    ///
    /// # Errors
    /// EEXIST if the file has a layout, EPERM for attributes that are not changed, and what the server says.
    pub(crate) async fn set_special(
        &self,
        caller: &Caller,
        fid: Fid,
        which: Special,
        value: Option<(Vec<u8>, XattrFlags)>,
    ) -> Result<(), Errno> {
        match (which, &value) {
            (Special::Layout, _) => {}
            (Special::DirectoryDefault, _) => {
                let layout = value.map_or_else(no_directory_default, |(layout, _)| layout);
                return self.set_default_layout(caller, fid, layout).await;
            }
            (Special::NewDirectory, Some((value, _))) => {
                return self.new_directory(caller, fid, value).await;
            }
            (Special::Parameter(name), Some((value, _))) => {
                return self.set_tunable(caller, &name, value);
            }
            _ => return Err(Errno::EPERM),
        }
        if !is_regular(self.attributes(caller, fid).await?.mode) {
            let layout = value.map_or_else(no_layout, |(layout, _)| layout);
            return self.set_default_layout(caller, fid, layout).await;
        }
        // The layout of a file is not removed as long as the file is there.
        let (layout, _) = value.ok_or(Errno::EPERM)?;
        let options = OpenOptions { write: true, layout: Some(layout), ..OpenOptions::default() };
        let opened = self.open_fid(caller, fid, &options).await?;
        self.close(opened.key, &opened.open, CloseReport::default()).await
    }

    /// Returns the layout that new files of a directory get. One round trip.
    async fn default_layout(&self, caller: &Caller, fid: Fid) -> Result<Vec<u8>, Errno> {
        // A kernel MDT does not survive the request below for a striped one.
        if self.shape(caller, fid).await?.stripes.is_some() {
            return self.read_xattr(caller, fid, b"trusted.lov").await;
        }
        let mdt = self.mdt(fid).await?;
        let valid = Valid::FLEASIZE | Valid::FLDIREA;
        let wanted = MdtBody { valid, ea_size: LAYOUT_MAX, ..body(caller, fid, None) };
        let message = Message::request(&GETATTR).with(&MDT_BODY, &wanted);
        let reply = self.request(mdt, Request::new(message, body_room())).await?;
        let found: MdtBody = reply.require(&MDT_BODY).map_err(|_| Errno::EPROTO)?;
        let bytes = reply.bytes(&EA_OF_REPLY).unwrap_or_default();
        let bytes = bytes.get(..found.ea_size as usize).unwrap_or(bytes);
        if bytes.is_empty() { Err(Errno::ENODATA) } else { Ok(bytes.to_vec()) }
    }

    /// Sets the layout that new files of a directory get. One round trip.
    async fn set_default_layout(
        &self,
        caller: &Caller,
        fid: Fid,
        layout: Vec<u8>,
    ) -> Result<(), Errno> {
        let mdt = self.mdt(fid).await?;
        let groups = [self.group_for(caller, fid), None];
        let early = self.give_up(mdt, &[(Some(fid), InodeBits::UPDATE | InodeBits::XATTR)]).await;
        let change = ReintChange::SetAttr(SetAttr::default());
        let record = record(caller, ReintOp::SETATTR, (fid, groups), change);
        let message = Message::request(&REINT_SETATTR)
            .with(&REINT, &record)
            .with_bytes(&NEW_LAYOUT, layout)
            .with(&LOCK_REQUEST, &given_up(early));
        self.request(mdt, Request::new(message, body_room()).modifying()).await?;
        Ok(())
    }
}

/// Returns the layout that stands for none.
fn no_layout() -> Vec<u8> {
    LovMd::wanted(0, 0).to_bytes()
}

/// Returns the layout of directories that stands for none.
fn no_directory_default() -> Vec<u8> {
    LmvUserMd::wanted(0, u32::MAX).to_bytes()
}

#[cfg(test)]
mod tests {
    use fulmar_rpc::import::TargetKind;

    use super::*;

    #[test]
    fn names_say_what_they_are() {
        let fid = Fid { seq: 0x2_0000_0401, oid: 2, version: 0 };
        assert_eq!(Special::of(b"lustre.lov"), Some(Special::Layout));
        assert_eq!(Special::of(b"lustre.fid"), Some(Special::Fid));
        assert_eq!(Special::of(b"lustre.dmv"), Some(Special::DirectoryDefault));
        let paths = b"lustre.fid2path.[0x200000401:0x2:0x0]";
        assert_eq!(Special::of(paths), Some(Special::Paths(fid)));
        let of = (TargetKind::Ost, 3);
        assert_eq!(Special::of(b"lustre.ping.OST:3"), Some(Special::Target(Question::Ping, of)));
        assert_eq!((Special::of(b"lustre.ping.OST"), Special::of(b"lustre.statfs.")), (None, None));
        let quota = Question::Quota("usr:1000".parse().unwrap(), QuotaQuestion::Used);
        let special = Special::of(b"lustre.quota.used.usr:1000.OST:3");
        assert_eq!(special, Some(Special::Target(quota, of)));
        assert_eq!(Special::of(b"lustre.quota.used.usr:1000"), None);
        let name = "osc/lv-OST0000-osc-0/import";
        let special = Special::of(&[PARAMETER, name.as_bytes()].concat());
        assert_eq!(special, Some(Special::Parameter(name.to_owned())));
        assert_eq!(Special::of(b"lustre.parameters.7"), Some(Special::Parameters(7)));
        assert_eq!(Special::of(b"lustre.parameters.x"), None);
        for other in [&b"user.lov"[..], b"trusted.lov", b"lustre.fid2path.", b"lustre.fid2path.1"] {
            assert_eq!(Special::of(other), None);
        }
    }
}
