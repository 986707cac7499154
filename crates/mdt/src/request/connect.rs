//! Clients that connect. Spec: ptlrpc-ldlm-mgs §12.2, §13.4, mdt-ost §1.7.

use fulmar_base::Errno;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{CLIENT_UUID, CONNECT_DATA};
use fulmar_lustre_wire::ldlm::InodeBits;
use fulmar_lustre_wire::message::{ConnectOpFlags, Message};
use fulmar_lustre_wire::{Status, Uuid};
use fulmar_rpc::export::Offer;
use fulmar_store::StoreError;
use fulmar_target::clients::{self, Client};

use super::Answer;
use crate::Mdt;
use crate::mdt::{Call, Export};
use crate::records::Failure;

const OFFER: Offer = Offer {
    flags: ConnectFlags::RDONLY
        .with(ConnectFlags::INDEX)
        .with(ConnectFlags::VERSION)
        .with(ConnectFlags::ACL)
        .with(ConnectFlags::XATTR)
        .with(ConnectFlags::LARGE_ACL)
        .with(ConnectFlags::IBITS)
        .with(ConnectFlags::NODEVOH)
        .with(ConnectFlags::GRANT)
        .with(ConnectFlags::SRVLOCK)
        .with(ConnectFlags::CKSUM)
        .with(ConnectFlags::GRANT_SHRINK)
        .with(ConnectFlags::GRANT_PARAM)
        .with(ConnectFlags::SHORTIO)
        .with(ConnectFlags::HPREQ_CHECK1)
        .with(ConnectFlags::ATTRFID)
        .with(ConnectFlags::BRW_SIZE)
        .with(ConnectFlags::CANCELSET)
        .with(ConnectFlags::AT)
        .with(ConnectFlags::LRU_RESIZE)
        .with(ConnectFlags::MDS_MDS)
        .with(ConnectFlags::FID)
        .with(ConnectFlags::LOV_V3)
        .with(ConnectFlags::MAX_EASIZE)
        .with(ConnectFlags::FULL20)
        .with(ConnectFlags::LAYOUTLOCK)
        .with(ConnectFlags::HASH_64BIT)
        .with(ConnectFlags::JOBSTATS)
        .with(ConnectFlags::UMASK)
        .with(ConnectFlags::EINPROGRESS)
        .with(ConnectFlags::LVB_TYPE)
        .with(ConnectFlags::LIGHTWEIGHT)
        .with(ConnectFlags::FLOCK_DEAD)
        .with(ConnectFlags::DISP_STRIPE)
        .with(ConnectFlags::OPEN_BY_FID)
        .with(ConnectFlags::UNLINK_CLOSE)
        .with(ConnectFlags::MULTIMODRPCS)
        .with(ConnectFlags::SUBTREE)
        .with(ConnectFlags::BULK_MBITS)
        .with(ConnectFlags::FLAGS2),
    flags2: ConnectFlags2::OVERSTRIPING
        .with(ConnectFlags2::LOCK_CONVERT)
        .with(ConnectFlags2::INC_XID)
        .with(ConnectFlags2::LSOM)
        .with(ConnectFlags2::ASYNC_DISCARD)
        .with(ConnectFlags2::GETATTR_PFID)
        .with(ConnectFlags2::LSEEK)
        .with(ConnectFlags2::DOM_LVB)
        .with(ConnectFlags2::UNALIGNED_DIO)
        .with(ConnectFlags2::REP_MBITS)
        .with(ConnectFlags2::ATOMIC_OPEN_LOCK)
        .with(ConnectFlags2::BATCH_RPC),
};

/// The parts of files whose locks clients may have.
const BITS: InodeBits = InodeBits::LOOKUP
    .with(InodeBits::UPDATE)
    .with(InodeBits::OPEN)
    .with(InodeBits::LAYOUT)
    .with(InodeBits::PERM)
    .with(InodeBits::XATTR)
    .with(InodeBits::DOM);

impl Mdt {
    /// Executes CONNECT. The reply to a client that was not known waits until it is written down.
    pub(crate) fn connect(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let uuid = call.message.require(&CLIENT_UUID).map_err(|_| Errno::EINVAL)?;
        let asked = call.message.require(&CONNECT_DATA).map_err(|_| Errno::EPROTO)?;
        let known = clients::get(&self.store, uuid)?;
        self.check_connect(&asked)?;
        let view = self.view(call);
        view.check_connect()?;
        if view.is_read_only() && !asked.flags.has(ConnectFlags::RDONLY) {
            return Err(Errno::EROFS.into());
        }
        let mut granted = self.offer(&asked);
        let (flags, flags2, group) = (granted.flags, granted.flags2, asked.group);
        let mut client = Client { number: 0, flags, flags2, group };
        let mut durable = None;
        if !flags.has(ConnectFlags::LIGHTWEIGHT) {
            let number = self.remember(uuid, &mut client)?;
            durable = known.is_none().then_some(number);
        }
        let is_again = self.exports().contains_key(&call.export);
        self.data.connect(call.export, &asked, &mut granted, is_again)?;
        self.exports().insert(call.export, Export { uuid, client });
        let mut reply = Message::reply(call.message.format(), Status::OK);
        reply.body.connect_flags = ConnectOpFlags::REPLAYABLE;
        let reply = reply.with(&CONNECT_DATA, &granted);
        Ok(Answer { durable, ..Answer::new(reply) })
    }

    fn check_connect(&self, asked: &ConnectData) -> Result<(), Errno> {
        let flags = asked.flags;
        match () {
            () if flags.has(ConnectFlags::INDEX)
                && asked.index != u32::from(self.settings.index) =>
            {
                Err(Errno::EBADF)
            }
            () if !flags.has(ConnectFlags::FID) && !flags.has(ConnectFlags::LIGHTWEIGHT) => {
                Err(Errno::EBADE)
            }
            () if flags.has(ConnectFlags::BRW_SIZE) && asked.brw_size == 0 => Err(Errno::EPROTO),
            () => Ok(()),
        }
    }

    fn offer(&self, asked: &ConnectData) -> ConnectData {
        let mut granted = OFFER.grant(asked);
        let flags = granted.flags;
        if flags.has(ConnectFlags::IBITS) {
            granted.ibits_known = asked.ibits_known & BITS.0;
        }
        self.data.offer(asked, &mut granted);
        if flags.has(ConnectFlags::MAX_EASIZE) {
            granted.ea_size_max = self.settings.xattr_max;
        }
        if flags.has(ConnectFlags::MULTIMODRPCS) {
            granted.modify_rpcs_max = self.settings.changes_max;
        }
        granted.instance = self.transactions.instance();
        granted
    }

    /// Writes a client down.
    fn remember(&self, uuid: Uuid, client: &mut Client) -> Result<u64, StoreError> {
        loop {
            let mut transaction = self.store.begin();
            let written = clients::put(&mut transaction, uuid, *client)?;
            match transaction.apply() {
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error),
                Ok(number) => {
                    *client = written;
                    return Ok(number);
                }
            }
        }
    }
}
