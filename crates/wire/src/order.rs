//! The byte order of a peer.

/// The byte order in which a peer writes scalars. This node always writes [`Order::Little`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

impl Order {
    /// Returns the order in which `bytes` are `magic`, if there is one.
    pub fn of_magic(bytes: [u8; 4], magic: u32) -> Option<Self> {
        if u32::from_le_bytes(bytes) == magic {
            Some(Self::Little)
        } else if u32::from_be_bytes(bytes) == magic {
            Some(Self::Big)
        } else {
            None
        }
    }
}
