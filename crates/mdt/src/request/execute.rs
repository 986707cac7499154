//! Requests to an MDT, each to what executes it. Spec: mdt-ost §7.1 to §7.11.

use fulmar_base::Errno;
use fulmar_lustre_wire::connect::ConnectFlags;
use fulmar_lustre_wire::format::{MDT_BODY, STATFS};
use fulmar_lustre_wire::mdt::{MdtBody, Statfs, StatfsState, Valid};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, Opcode, Status, Text};

use super::Answer;
use crate::Mdt;
use crate::data::object_of;
use crate::mdt::{Call, Export};
use crate::names::NAME_MAX;
use crate::records::Failure;

/// What an inode with its name takes on the medium, roughly.
const FILE_LEN: u64 = 4096;
/// The magic of the backend: clients take what they do not know for a failure. Spec: mdt-ost §7.2.
const KIND: u64 = 0xef53;

/// The requests about the data of files, which an OST has too.
const IS_DATA: [Opcode; 7] = [
    Opcode::OST_READ,
    Opcode::OST_WRITE,
    Opcode::OST_PUNCH,
    Opcode::OST_FALLOCATE,
    Opcode::OST_SYNC,
    Opcode::OST_SEEK,
    Opcode::OST_SET_INFO,
];

impl Mdt {
    /// The requests that it executes, without those about connections and locks.
    pub const OPERATIONS: &[Opcode] = &[
        Opcode::MDS_GETATTR,
        Opcode::MDS_GETATTR_NAME,
        Opcode::MDS_CLOSE,
        Opcode::MDS_REINT,
        Opcode::MDS_READPAGE,
        Opcode::MDS_GET_ROOT,
        Opcode::MDS_STATFS,
        Opcode::MDS_SYNC,
        Opcode::MDS_SET_INFO,
        Opcode::MDS_QUOTACTL,
        Opcode::MDS_GETXATTR,
        Opcode::MDS_HSM_STATE_GET,
        Opcode::MDS_HSM_STATE_SET,
        Opcode::MDS_GET_INFO,
        Opcode::MDS_SWAP_LAYOUTS,
        Opcode::OST_READ,
        Opcode::OST_WRITE,
        Opcode::OST_PUNCH,
        Opcode::OST_FALLOCATE,
        Opcode::OST_SYNC,
        Opcode::OST_SEEK,
        Opcode::OST_SET_INFO,
        Opcode::MDS_RMFID,
        Opcode::MDS_BATCH,
        Opcode::LLOG_CREATE,
        Opcode::LLOG_READ_HEADER,
        Opcode::LLOG_NEXT_BLOCK,
        Opcode::SEQ_QUERY,
        Opcode::FLD_QUERY,
        Opcode::FLD_READ,
    ];

    /// Executes a request that is no intent, no read of a directory and no change. The locks that it needs
    /// are the caller's.
    ///
    /// # Errors
    /// The status of a reply without buffers.
    pub fn execute(&self, call: &Call<'_>) -> Result<Answer, Errno> {
        let result = match call.message.body.opcode {
            Opcode::MDS_CONNECT => self.connect(call),
            opcode if IS_DATA.contains(&opcode) => return self.execute_data(call),
            opcode => {
                self.export(call.export).map_err(Failure::from).and_then(|export| match opcode {
                    Opcode::MDS_DISCONNECT => self.disconnect(call),
                    Opcode::MDS_GET_ROOT => self.get_root(call),
                    Opcode::MDS_STATFS => self.statfs(call),
                    Opcode::MDS_SYNC => self.sync(call),
                    Opcode::MDS_GETATTR => self.getattr(call, &export),
                    Opcode::MDS_GETATTR_NAME => self.getattr_name(call, &export),
                    Opcode::MDS_GETXATTR => self.getxattr(call),
                    Opcode::MDS_CLOSE => self.close(call),
                    Opcode::MDS_GET_INFO => self.get_info(call),
                    Opcode::MDS_SET_INFO => self.set_info(call, export),
                    Opcode::MDS_QUOTACTL => self.quotactl(call),
                    Opcode::MDS_HSM_STATE_GET => self.hsm_state(call),
                    Opcode::MDS_HSM_STATE_SET => self.set_hsm_state(call),
                    Opcode::MDS_SWAP_LAYOUTS => self.swap_layouts(call),
                    Opcode::LLOG_CREATE => self.open_log(call),
                    Opcode::LLOG_READ_HEADER => self.log_header(call),
                    Opcode::LLOG_NEXT_BLOCK => self.log_block(call),
                    Opcode::SEQ_QUERY => self.allocate_sequences(call),
                    Opcode::FLD_QUERY => self.locate(call),
                    Opcode::FLD_READ => self.read_locations(call),
                    _ => Err(Errno::EOPNOTSUPP.into()),
                })
            }
        };
        result.map_err(|failure| failure.errno())
    }

    fn disconnect(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        self.forget(call.export, call.now)?;
        Ok(Answer::new(Message::reply(call.message.format(), Status::OK)))
    }

    /// Executes GET_ROOT: the root of the file system, or of a part of it.
    fn get_root(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let name = call.message.get(&fulmar_lustre_wire::format::NAME);
        let name = name.map_err(|_| Errno::EPROTO)?.unwrap_or_default();
        let view = self.view(call);
        view.check()?;
        let (mut path, mut is_read_only) = (name.as_bytes().to_vec(), false);
        if !view.is_plain() {
            let wanted = str::from_utf8(&path).map_err(|_| Errno::ENOENT)?;
            let root = view.root_of(wanted)?;
            (path, is_read_only) = (root.path.into_bytes(), root.is_read_only);
        }
        if is_read_only && !self.export(call.export)?.is_read_only() {
            return Err(Errno::EROFS.into());
        }
        let mut fid = Fid::ROOT;
        for part in path.split(|&byte| byte == b'/').filter(|part| !part.is_empty()) {
            fid = self.entry(fid, part)?.ok_or(Errno::ENOENT)?.fid;
        }
        if !self.inode(fid)?.is_directory() {
            return Err(Errno::ENOTDIR.into());
        }
        let body = MdtBody { fid, valid: Valid::FLID, ..MdtBody::default() };
        let reply = Message::reply(call.message.format(), Status::OK);
        Ok(Answer::new(reply.with(&MDT_BODY, &body)))
    }

    /// Executes STATFS, for this target only.
    fn statfs(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let room = self.store.room()?;
        let files = self.usage.objects();
        let free_files = room.free / FILE_LEN;
        let nothing = StatfsState::NONE;
        let statfs = Statfs {
            kind: KIND,
            blocks: room.total / FILE_LEN,
            free: room.free / FILE_LEN,
            available: room.free / FILE_LEN,
            files: files + free_files,
            free_files,
            fsid: Text::default(),
            block_size: FILE_LEN as u32,
            name_max: NAME_MAX as u32,
            max_bytes: i64::MAX as u64,
            state: if free_files == 0 { StatfsState::ENOSPC } else { nothing },
            ..Statfs::default()
        };
        let reply = Message::reply(call.message.format(), Status::OK);
        Ok(Answer::new(reply.with(&STATFS, &statfs)))
    }

    /// Executes SYNC: the reply waits until all that was done before is on disk.
    fn sync(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let asked = body_of(call)?;
        let mut reply = Message::reply(call.message.format(), Status::OK);
        reply = if asked.fid == Fid::default() {
            reply.with(&MDT_BODY, &MdtBody::default())
        } else {
            let inode = self.inode(asked.fid)?;
            let mut body = super::attributes::body(asked.fid, &inode, &self.view(call));
            if inode.on_mdt().is_some() {
                body.size = self.store.size(object_of(asked.fid))?;
                body.blocks = inode.charged() / 512;
            }
            reply.with(&MDT_BODY, &body)
        };
        Ok(Answer { durable: Some(self.store.applied()), ..Answer::new(reply) })
    }
}

/// Returns the body of a request.
pub(crate) fn body_of(call: &Call<'_>) -> Result<MdtBody, Errno> {
    call.message.require(&MDT_BODY).map_err(|_| Errno::EPROTO)
}

impl Export {
    /// Returns whether the client may not change anything.
    pub(crate) fn is_read_only(&self) -> bool {
        self.client.flags.has(ConnectFlags::RDONLY)
    }
}
