//! Clients that connect. Spec: ptlrpc-ldlm-mgs §12.2, §13.4, mdt-ost §19.2.

use fulmar_base::Errno;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{CLIENT_UUID, CONNECT_DATA};
use fulmar_lustre_wire::message::{ConnectOpFlags, Message};
use fulmar_lustre_wire::{Status, Uuid};
use fulmar_rpc::export::Offer;
use fulmar_store::StoreError;
use fulmar_target::clients::{self, Client};

use crate::Ost;
use crate::ost::{Answer, Call, Export, Failure};

const OFFER: Offer = Offer {
    flags: ConnectFlags::RDONLY
        .with(ConnectFlags::SRVLOCK)
        .with(ConnectFlags::GRANT)
        .with(ConnectFlags::VERSION)
        .with(ConnectFlags::INDEX)
        .with(ConnectFlags::BRW_SIZE)
        .with(ConnectFlags::CANCELSET)
        .with(ConnectFlags::AT)
        .with(ConnectFlags::LRU_RESIZE)
        .with(ConnectFlags::CKSUM)
        .with(ConnectFlags::VBR)
        .with(ConnectFlags::MDS)
        .with(ConnectFlags::SKIP_ORPHAN)
        .with(ConnectFlags::GRANT_SHRINK)
        .with(ConnectFlags::FULL20)
        .with(ConnectFlags::HASH_64BIT)
        .with(ConnectFlags::MAXBYTES)
        .with(ConnectFlags::MAX_EASIZE)
        .with(ConnectFlags::EINPROGRESS)
        .with(ConnectFlags::JOBSTATS)
        .with(ConnectFlags::LIGHTWEIGHT)
        .with(ConnectFlags::LVB_TYPE)
        .with(ConnectFlags::LAYOUTLOCK)
        .with(ConnectFlags::FID)
        .with(ConnectFlags::LFSCK)
        .with(ConnectFlags::BULK_MBITS)
        .with(ConnectFlags::GRANT_PARAM)
        .with(ConnectFlags::SHORTIO)
        .with(ConnectFlags::FLAGS2)
        .with(ConnectFlags::HPREQ_CHECK1)
        // Kept of older clients, whose FALLOCATE says less. They ignore it in the reply.
        .with(ConnectFlags::OLD_FALLOC),
    flags2: ConnectFlags2::LOCKAHEAD
        .with(ConnectFlags2::INC_XID)
        .with(ConnectFlags2::ENCRYPT)
        .with(ConnectFlags2::LSEEK)
        .with(ConnectFlags2::REP_MBITS)
        .with(ConnectFlags2::REPLAY_CREATE)
        .with(ConnectFlags2::UNALIGNED_DIO),
};

impl Ost {
    /// Executes CONNECT. The reply to a client that was not known waits until it is written down.
    pub(crate) fn connect(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let uuid = call.message.require(&CLIENT_UUID).map_err(|_| Errno::EINVAL)?;
        let asked = call.message.require(&CONNECT_DATA).map_err(|_| Errno::EPROTO)?;
        let known = clients::get(&self.store, uuid)?;
        self.check_connect(&asked, known.as_ref())?;
        self.view(call).check_connect()?;
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
        // Clients replay what a restart has lost only to a target that says so.
        reply.body.connect_flags = ConnectOpFlags::REPLAYABLE;
        let reply = reply.with(&CONNECT_DATA, &granted);
        Ok(Answer { durable, ..Answer::new(reply) })
    }

    /// Checks what a client says, in the order of a kernel server.
    fn check_connect(&self, asked: &ConnectData, known: Option<&Client>) -> Result<(), Errno> {
        let flags = asked.flags;
        match () {
            () if known.is_some_and(|known| {
                let was_mdt = known.flags.has(ConnectFlags::MDS);
                was_mdt && flags.has(ConnectFlags::MDS) && known.group != asked.group
            }) =>
            {
                Err(Errno::EPROTO)
            }
            () if flags.has(ConnectFlags::INDEX)
                && asked.index != u32::from(self.settings.index) =>
            {
                Err(Errno::EBADF)
            }
            () if flags.has(ConnectFlags::SKIP_ORPHAN) && !flags.has(ConnectFlags::MDS) => {
                Err(Errno::EPROTO)
            }
            () if flags.has(ConnectFlags::BRW_SIZE) && asked.brw_size == 0 => Err(Errno::EPROTO),
            () => Ok(()),
        }
    }

    fn offer(&self, asked: &ConnectData) -> ConnectData {
        let mut granted = OFFER.grant(asked);
        self.data.offer(asked, &mut granted);
        if granted.flags.has(ConnectFlags::MAXBYTES) {
            granted.bytes_max = self.settings.bytes_max;
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
