//! Names of buffers, with the type of their content.

use std::fmt;
use std::marker::PhantomData;

use fulmar_wire::{DecodeError, Order, Writer};
use serde::Serialize;
use serde_json::Value;

use crate::Content;

/// A buffer that contains a `T`. Its place in a message depends on the [`Format`](super::Format).
pub struct FieldOf<T> {
    name: &'static str,
    content: PhantomData<fn() -> T>,
}

impl<T> FieldOf<T> {
    pub(super) const fn new(name: &'static str) -> Self {
        Self { name, content: PhantomData }
    }

    /// Returns the name, such as `mdt_body`.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<T> fmt::Debug for FieldOf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A [`FieldOf`] of any type.
pub trait Buffer: Sync + fmt::Debug {
    /// Returns the name.
    fn name(&self) -> &'static str;

    /// Decodes the content for people.
    ///
    /// # Errors
    /// If the content is not valid.
    fn value(&self, bytes: &[u8], order: Order) -> Result<Value, DecodeError>;

    /// Checks the content.
    ///
    /// # Errors
    /// If the content is not valid.
    fn check(&self, bytes: &[u8], order: Order) -> Result<(), DecodeError>;

    /// Decodes the content, and encodes the value in the same byte order.
    ///
    /// # Errors
    /// If the content is not valid.
    fn recode(&self, bytes: &[u8], order: Order) -> Result<Vec<u8>, DecodeError>;
}

impl<T: Content + Serialize> Buffer for FieldOf<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn value(&self, bytes: &[u8], order: Order) -> Result<Value, DecodeError> {
        let value = T::decode(bytes, order)?;
        Ok(serde_json::to_value(value).unwrap_or_else(|error| error.to_string().into()))
    }

    fn check(&self, bytes: &[u8], order: Order) -> Result<(), DecodeError> {
        T::decode(bytes, order).map(|_| ())
    }

    fn recode(&self, bytes: &[u8], order: Order) -> Result<Vec<u8>, DecodeError> {
        let mut again = Vec::with_capacity(bytes.len());
        T::decode(bytes, order)?.encode(&mut Writer::new(&mut again, order));
        Ok(again)
    }
}
