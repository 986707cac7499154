//! The registration of targets.

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_flags};
use serde::{Serialize, Serializer};

use crate::content::{read_count, read_rest, write_all};
use crate::{Bytes, Content, SmallNid, Text};

wire_flags! {
    /// What a target is and what is to be done. Spec: ptlrpc-ldlm-mgs §33.1.
    #[doc(alias = "LDD_F")]
    pub struct TargetFlags(u32) {
        MDT = 0x1,
        OST = 0x2,
        MGS = 0x4,
        SV_ALL = 0x8,
        /// It has no index yet.
        NEED_INDEX = 0x10,
        /// It was never registered.
        VIRGIN = 0x20,
        /// Its configuration is to be written.
        UPDATE = 0x40,
        /// The target must store what the reply says.
        REWRITE_LDD = 0x80,
        /// Its logs are to be written anew.
        WRITECONF = 0x100,
        PARAM = 0x400,
        NO_PRIMNODE = 0x1000,
        /// Clients reconnect by the table of NIDs.
        IR_CAPABLE = 0x2000,
        ERROR = 0x4000,
        PARAM2 = 0x8000,
        NO_LOCAL_LOGS = 0x1_0000,
        LARGE_NID = 0x2_0000,
        /// It registers.
        OPC_REG = 0x1000_0000,
        OPC_UNREG = 0x2000_0000,
        /// It is started.
        OPC_READY = 0x4000_0000,
    }
}

/// A target that registers or has started: 4544 bytes, and 64 for each NID that is a text.
///
/// ```text
///  0 version  4 index  8 config version  12 flags  16 NID count  20 instance  24 file system [64]
/// 88 name [64]  152 uuid [40]  192 NIDs [256]  448 parameters [4096]  4544 NIDs as texts
/// ```
/// Spec: ptlrpc-ldlm-mgs §33.1.
#[doc(alias = "mgs_target_info")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct TargetInfo {
    /// The version of Lustre.
    pub version: u32,
    pub index: u32,
    pub config_version: u32,
    pub flags: TargetFlags,
    pub nid_count: u32,
    /// The incarnation of the target.
    pub instance: u32,
    pub file_system: Text<64>,
    /// Such as `lv-OST0001`.
    pub name: Text<64>,
    pub uuid: Text<40>,
    /// The NIDs in the old form, as many as `nid_count` says.
    #[serde(serialize_with = "show_nids")]
    pub nids: [u64; 32],
    /// Parameters as `name=value`, with spaces between them.
    pub parameters: Text<4096>,
    /// NIDs in the new form.
    pub nid_texts: Vec<Text<64>>,
}

impl TargetInfo {
    /// The length without NIDs that are texts.
    pub const LEN_MIN: usize = 4544;
}

fn show_nids<S: Serializer>(nids: &[u64; 32], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(nids.iter().filter(|nid| **nid != 0).map(|nid| SmallNid(*nid)))
}

impl Content for TargetInfo {
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, order);
        Ok(Self {
            version: r.u32("TargetInfo.version")?,
            index: r.u32("TargetInfo.index")?,
            config_version: r.u32("TargetInfo.config_version")?,
            flags: Field::read(r, "TargetInfo.flags")?,
            nid_count: r.u32("TargetInfo.nid_count")?,
            instance: r.u32("TargetInfo.instance")?,
            file_system: Field::read(r, "TargetInfo.file_system")?,
            name: Field::read(r, "TargetInfo.name")?,
            uuid: Field::read(r, "TargetInfo.uuid")?,
            nids: Field::read(r, "TargetInfo.nids")?,
            parameters: Field::read(r, "TargetInfo.parameters")?,
            nid_texts: read_rest(r, "TargetInfo.nid_texts")?,
        })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.version);
        w.u32(self.index);
        w.u32(self.config_version);
        self.flags.write(w);
        w.u32(self.nid_count);
        w.u32(self.instance);
        self.file_system.write(w);
        self.name.write(w);
        self.uuid.write(w);
        self.nids.write(w);
        self.parameters.write(w);
        write_all(&self.nid_texts, w);
    }
}

wire_flags! {
    /// How the NIDs of a target are sent. Spec: ptlrpc-ldlm-mgs §33.1.
    pub struct TargetNidsFlags(u32) {
        APPEND = 0x1,
        /// As bulk.
        IN_BULK = 0x2,
        COMPRESSED = 0x4,
    }
}

/// The NIDs of a target that registers: 8 bytes, and 64 for each NID. None means those of
/// [`TargetInfo::nids`]. Spec: ptlrpc-ldlm-mgs §33.1.
#[doc(alias = "mgs_target_nidlist")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TargetNids {
    /// How they are sent.
    pub flags: TargetNidsFlags,
    /// How many there are, here or in the bulk.
    pub count: u32,
    /// The NIDs as texts, unless they are in the bulk.
    pub nids: Vec<Text<64>>,
    /// Unused room.
    #[serde(skip)]
    pub rest: Bytes,
}

impl Content for TargetNids {
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, order);
        let flags = TargetNidsFlags::read(r, "TargetNids.flags")?;
        let count = r.u32("TargetNids.count")?;
        let here = if flags.has(TargetNidsFlags::IN_BULK) { 0 } else { count as usize };
        let nids = read_count(r, here, "TargetNids.nids")?;
        Ok(Self { flags, count, nids, rest: Bytes::take_rest(r) })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        self.flags.write(w);
        w.u32(self.count);
        write_all(&self.nids, w);
        w.bytes(&self.rest.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_any, check_example};

    fn info() -> TargetInfo {
        let mut nids = [0; 32];
        nids[0] = 0x0002_0000_0a63_0003;
        TargetInfo {
            version: 0x0211_393e,
            index: 2,
            flags: TargetFlags(0x1002_0062),
            nid_count: 1,
            file_system: Text::new("lv").unwrap(),
            name: Text::new("lv-OST0002").unwrap(),
            nids,
            nid_texts: vec![Text::new("10.99.0.3@tcp").unwrap()],
            ..TargetInfo::default()
        }
    }

    #[test]
    fn an_ost_registers_for_the_first_time() {
        let info = info();
        let bytes = info.to_bytes();
        assert_eq!(bytes.len(), 4544 + 64);
        assert_eq!(check_example::<TargetInfo>(&bytes), info);
        assert_eq!(info.flags.to_string(), "OST|VIRGIN|UPDATE|LARGE_NID|OPC_REG");
        for len in [0, 4543, 4545, 4607] {
            assert!(TargetInfo::decode(&bytes[..len], Order::Little).is_err(), "{len}");
        }
        let json = serde_json::json!(info);
        assert_eq!(json["nids"], serde_json::json!(["10.99.0.3@tcp"]));
        assert_eq!(json["name"], "lv-OST0002");
    }

    #[test]
    fn nids_follow_or_are_in_the_bulk() {
        let nids = vec![Text::new("fd00::3@tcp").unwrap()];
        let here = TargetNids { count: 1, nids, ..TargetNids::default() };
        assert_eq!(check_example::<TargetNids>(&here.to_bytes()), here);
        let flags = TargetNidsFlags::IN_BULK;
        let bulk = TargetNids { flags, count: 5000, ..TargetNids::default() };
        assert_eq!(check_example::<TargetNids>(&bulk.to_bytes()), bulk);
        check_any::<TargetNids>(&[]);
    }
}
