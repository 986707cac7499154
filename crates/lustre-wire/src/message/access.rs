//! The buffers of a message by name.

use std::borrow::Cow;

use fulmar_wire::{DecodeError, Order};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use super::{Body, Container, Head, Kind, Message};
use crate::format::{Buffer, FieldOf, Format};
use crate::mdt::BatchReply;
use crate::{Bytes, Content, Status};

impl<'a> Message<'a> {
    /// Returns a request without buffers.
    pub fn request(format: &'static Format) -> Self {
        Self::new(Body::request(format.opcode), format)
    }

    /// Returns a reply in which all buffers are empty, as a server sends them.
    pub fn reply(format: &'static Format, status: Status) -> Self {
        let buffers = vec![Cow::default(); format.reply.len()];
        Self { buffers, ..Self::new(Body::reply(format.opcode, status), format) }
    }

    /// Returns the reply, without buffers, to a request that is not processed.
    pub fn error(format: &'static Format, status: Status) -> Self {
        Self::new(Body::error(format.opcode, status), format)
    }

    fn new(body: Body, format: &'static Format) -> Self {
        let head = Head::default();
        let order = Order::Little;
        Self { head, order, body, user: None, bulk: None, format, buffers: Vec::new() }
    }

    /// Returns a part of a batch as a message of its own, of the format of such a message. Spec: mdt-ost §7.16.
    pub fn of_part(part: Container<'a>, body: Body, format: &'static Format) -> Self {
        let Container { head, order, buffers } = part;
        Self { head, order, body, user: None, bulk: None, format, buffers }
    }

    /// Returns the parts of the reply to a batch as replies to requests of this format. The result of a part is the status
    /// of its body.
    ///
    /// # Errors
    /// If one is not valid.
    pub fn replies_in(
        batch: &'a BatchReply,
        format: &'static Format,
    ) -> Result<Vec<Self>, DecodeError> {
        let parts = Container::decode_batch(&batch.messages.0, batch.count)?;
        let reply = |part: Container<'a>| {
            let body = Body::reply(format.opcode, Status(part.head.part as i32));
            Self::of_part(part, body, format)
        };
        Ok(parts.into_iter().map(reply).collect())
    }

    /// Returns the buffers as a part of a batch.
    pub fn into_part(self, head: Head) -> Container<'a> {
        Container { head, order: self.order, buffers: self.buffers }
    }

    /// Sets the format of a received reply: that of its request.
    #[must_use]
    pub fn answering(self, request: &'static Format) -> Self {
        Self { format: request, ..self }
    }

    /// Returns the format.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// Sets a buffer. Buffers before it that are not set are empty.
    ///
    /// # Panics
    /// If the format has no such buffer, or the message was received from a peer of another byte
    /// order.
    #[must_use]
    pub fn with<T: Content>(self, field: &FieldOf<T>, value: &T) -> Self {
        assert_eq!(self.order, Order::Little, "this node sends little-endian messages");
        self.with_bytes(field, value.to_bytes())
    }

    /// Sets a buffer to encoded bytes, without a copy; see [`Message::with`]. No bytes reserve the
    /// place of the buffer.
    ///
    /// # Panics
    /// If the format has no such buffer.
    #[must_use]
    pub fn with_bytes<T>(mut self, field: &FieldOf<T>, bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        self.set_bytes(field, bytes);
        self
    }

    /// Sets a buffer of a message that is kept; see [`Message::with`].
    ///
    /// # Panics
    /// As [`Message::with`].
    pub fn set<T: Content>(&mut self, field: &FieldOf<T>, value: &T) {
        assert_eq!(self.order, Order::Little, "this node sends little-endian messages");
        self.set_bytes(field, value.to_bytes());
    }

    /// Sets a buffer of a message that is kept to encoded bytes; see [`Message::with_bytes`].
    ///
    /// # Panics
    /// As [`Message::with_bytes`].
    pub fn set_bytes<T>(&mut self, field: &FieldOf<T>, bytes: impl Into<Cow<'a, [u8]>>) {
        let place = self.place(field.name());
        let place = place.unwrap_or_else(|| panic!("{} has no {}", self.format, field.name()));
        if self.buffers.len() <= place {
            self.buffers.resize(place + 1, Cow::default());
        }
        self.buffers[place] = bytes.into();
    }

    /// Returns the value of a buffer; `None` if the buffer is empty or missing.
    ///
    /// # Errors
    /// If the content is not valid.
    pub fn get<T: Content>(&self, field: &FieldOf<T>) -> Result<Option<T>, DecodeError> {
        self.bytes(field).map(|bytes| T::decode(bytes, self.order)).transpose()
    }

    /// Returns the value of a buffer that must not be empty.
    ///
    /// # Errors
    /// If the buffer is empty or missing, or the content is not valid.
    pub fn require<T: Content>(&self, field: &FieldOf<T>) -> Result<T, DecodeError> {
        self.get(field)?.ok_or(DecodeError::Short { field: field.name(), missing: 1 })
    }

    /// Returns the bytes of a buffer; `None` if it is empty or missing.
    pub fn bytes<T>(&self, field: &FieldOf<T>) -> Option<&[u8]> {
        let buffer = self.buffers.get(self.place(field.name())?)?;
        (!buffer.is_empty()).then_some(buffer.as_ref())
    }

    /// Returns all buffers after the body, each with its name and type if the format has it.
    pub fn buffers(&self) -> impl Iterator<Item = (Option<&'static dyn Buffer>, &[u8])> {
        let fields = self.fields().iter().copied().map(Some).chain(std::iter::repeat(None));
        fields.zip(self.buffers.iter().map(AsRef::as_ref))
    }

    /// Returns whether a request has what servers take from it before its operation looks at it: its
    /// body, or its lock request. Operations that begin otherwise need nothing. Spec:
    /// ptlrpc-ldlm-mgs §6.3.
    pub fn has_main_buffer(&self) -> bool {
        let Some(main) = self.format.main_buffer() else { return true };
        let bytes = self.buffers.first().map_or(&[][..], AsRef::as_ref);
        !bytes.is_empty() && main.check(bytes, self.order).is_ok()
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.fields().iter().position(|field| field.name() == name)
    }

    fn fields(&self) -> &'static [&'static dyn Buffer] {
        match self.body.kind {
            Kind::REQUEST => self.format.request,
            _ => self.format.reply,
        }
    }
}

impl Serialize for Message<'_> {
    /// Serialises the body, the other words, and each buffer that is not empty. A buffer that is not
    /// valid is its error and its bytes.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("head", &self.head)?;
        map.serialize_entry("body", &self.body)?;
        if let Some(user) = &self.user {
            map.serialize_entry("user", user)?;
        }
        if let Some(bulk) = &self.bulk {
            map.serialize_entry("bulk", bulk)?;
        }
        for (place, (field, bytes)) in self.buffers().enumerate() {
            match field {
                _ if bytes.is_empty() => {}
                Some(field) => {
                    map.serialize_entry(field.name(), &shown(field, bytes, self.order))?
                }
                None => {
                    let name = format!("buffer_{}", place + 1);
                    map.serialize_entry(&name, &Bytes(bytes.to_vec()))?;
                }
            }
        }
        map.end()
    }
}

fn shown(field: &dyn Buffer, bytes: &[u8], order: Order) -> Value {
    field.value(bytes, order).unwrap_or_else(
        |error| serde_json::json!({ "error": error.to_string(), "bytes": Bytes(bytes.to_vec()) }),
    )
}
