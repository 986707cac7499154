//! Facts about objects.

use fulmar_lustre_wire::Opcode;
use fulmar_lustre_wire::format::{IO_OBJECTS, KEY, LAST_FID, LAST_ID, NIOBUFS, OST_BODY, SHORT_IO};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{ChecksumKind, Obdo};
use fulmar_text::{bytes, count};
use fulmar_wire::DecodeError;

use super::{Facts, range};

impl Facts<'_> {
    pub(super) fn add_object(
        &mut self,
        request: &Message<'_>,
        reply: Option<&Message<'_>>,
    ) -> Result<(), DecodeError> {
        if let Some(key) = request.get(&KEY)? {
            self.add(key);
        }
        let answer = reply.map(|reply| reply.get(&OST_BODY)).transpose()?.flatten();
        if let Some(object) = request.get(&OST_BODY)? {
            self.add_identity(&object);
            match request.body.opcode {
                Opcode::OST_READ | Opcode::OST_WRITE => self.add_io(&object, request, reply)?,
                Opcode::OST_PUNCH | Opcode::OST_SYNC | Opcode::OST_FALLOCATE => {
                    self.add(range(object.size, object.blocks));
                }
                Opcode::OST_SEEK => {
                    let whence = if object.mode == 3 { "data" } else { "hole" };
                    self.add(format_args!("{whence} from {}", object.size));
                    if let Some(answer) = answer {
                        self.add(format_args!("= {}", answer.size as i64));
                    }
                }
                Opcode::OST_CREATE => {
                    if let Some(answer) = answer {
                        self.add(format_args!("up to {}", answer.id));
                    }
                }
                Opcode::OST_DESTROY if object.valid.has(Valid::FLOBJCOUNT) => {
                    self.add(count(object.misc, "object"));
                }
                _ => {}
            }
        }
        if let Some(reply) = reply {
            if let Some(last) = reply.get(&LAST_FID)? {
                self.add(format_args!("= {last}"));
            }
            if let Some(last) = reply.get(&LAST_ID)? {
                self.add(format_args!("= {last}"));
            }
        }
        self.add_statfs(reply)
    }

    /// Adds the object, and the file that it belongs to.
    fn add_identity(&mut self, object: &Obdo) {
        match object.id.fid(0) {
            Some(id) => self.add(self.file(id)),
            None => self.add(object.id),
        }
    }

    fn add_io(
        &mut self,
        object: &Obdo,
        request: &Message<'_>,
        reply: Option<&Message<'_>>,
    ) -> Result<(), DecodeError> {
        const SHOWN_MAX: usize = 2;
        let ranges = request.get(&NIOBUFS)?.unwrap_or_default().0;
        for part in ranges.iter().take(SHOWN_MAX) {
            self.add(range(part.offset, part.offset.saturating_add(part.len.into())));
        }
        if ranges.len() > SHOWN_MAX {
            let len = ranges.iter().map(|part| u64::from(part.len)).sum();
            let others = count((ranges.len() - SHOWN_MAX) as u64, "range");
            self.add(format_args!("and {others}, {}", bytes(len)));
        }
        if request.get(&IO_OBJECTS)?.is_some_and(|objects| objects.0.len() > 1) {
            self.add("several objects");
        }
        let inline = reply.and_then(|reply| reply.bytes(&SHORT_IO)).or(request.bytes(&SHORT_IO));
        if let Some(inline) = inline {
            self.add(format_args!("inline {}", bytes(inline.len() as u64)));
        }
        let answer = reply.map(|reply| reply.get(&OST_BODY)).transpose()?.flatten();
        let is_write = request.body.opcode == Opcode::OST_WRITE;
        let sums = [Some(object).filter(|_| is_write), answer.as_ref()].into_iter().flatten();
        let sums: Vec<_> = sums.filter(|object| object.valid.has(Valid::FLCKSUM)).collect();
        if let [first, second] = sums.as_slice()
            && first.nlink != second.nlink
        {
            self.add(format_args!("CHECKSUM {:#x} -> {:#x}", first.nlink, second.nlink));
        }
        if let Some(kind) = sums.first().map(|object| object.flags.checksum_kind) {
            let kind: ChecksumKind = kind;
            self.add(format_args!("{kind:?}"));
        }
        Ok(())
    }
}
