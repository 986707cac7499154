//! The arguments of operations, each a word of text.

use std::fmt;
use std::str::FromStr;

/// A place for an open file: `h0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(pub u8);

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "h{}", self.0)
    }
}

impl FromStr for Slot {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        word.strip_prefix('h').and_then(|number| number.parse().ok()).map(Self).ok_or(())
    }
}

/// Permissions in octal digits: `0644`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(pub u32);

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl FromStr for Mode {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        u32::from_str_radix(word, 8).map(Self).map_err(|_| ())
    }
}

/// The value of an attribute, with `=` in front, so that it may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value(pub String);

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "={}", self.0)
    }
}

impl FromStr for Value {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        word.strip_prefix('=').map(|value| Self(value.to_owned())).ok_or(())
    }
}

macro_rules! letters {
    ($($field:ident = $letter:literal),+) => {
        /// What a file is opened for, by letters: `rwct` reads, writes, creates it if it is missing, and cuts it; `d` is O_DIRECT, `s` O_SYNC.
        #[allow(missing_docs)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Access { $(pub $field: bool),+ }

        impl fmt::Display for Access {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $( if self.$field { write!(f, "{}", $letter)?; } )+
                Ok(())
            }
        }

        impl FromStr for Access {
            type Err = ();

            fn from_str(word: &str) -> Result<Self, ()> {
                let mut access = Self::default();
                for letter in word.chars() {
                    match letter { $( $letter => access.$field = true, )+ _ => return Err(()) }
                }
                Ok(access)
            }
        }
    };
}

letters!(
    read = 'r',
    write = 'w',
    append = 'a',
    create = 'c',
    truncate = 't',
    exclusive = 'x',
    direct = 'd',
    sync = 's'
);

macro_rules! choices {
    ($( $(#[doc = $doc:literal])+ $name:ident { $( #[doc = $what:literal] $choice:ident = $word:literal ),+ } )+) => { $(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $( #[doc = $what] $choice ),+ }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[ $( Self::$choice ),+ ];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $( Self::$choice => $word ),+ })
            }
        }

        impl FromStr for $name {
            type Err = ();

            fn from_str(word: &str) -> Result<Self, ()> {
                match word { $( $word => Ok(Self::$choice), )+ _ => Err(()) }
            }
        }
    )+ };
}

choices! {
    /// The layout of a new file. Stripes and components are small, so that operations meet their borders.
    Layout {
        /// That of its directory.
        Default = "default",
        /// One object.
        Plain = "plain",
        /// Stripes of 64 KiB on all OSTs.
        Wide = "wide",
        /// Components that end at 64 KiB, at 256 KiB, and at the end of the file.
        Parts = "parts",
        /// The first 64 KiB on the MDT, the rest in stripes.
        OnMdt = "mdt"
    }
    /// What is done with the space of a range.
    How {
        /// It is allocated, and the file is at least that long.
        Grow = "grow",
        /// It is allocated, and the length stays.
        Keep = "keep",
        /// It becomes a hole.
        Punch = "punch",
        /// It becomes zeros, and the file is at least that long.
        Zero = "zero"
    }
    /// What is looked for.
    What {
        /// Data.
        Data = "data",
        /// A hole, or the end.
        Hole = "hole"
    }
    /// Whether an extended attribute must be there before, or must not.
    Flags {
        /// Neither.
        Any = "any",
        /// It must not.
        Create = "create",
        /// It must.
        Replace = "replace"
    }
    /// Which servers.
    Target {
        /// All of them.
        All = "all",
        /// That of the MDT, which is the MGS as well.
        Mdt = "mdt",
        /// The first OST.
        Ost0 = "ost0",
        /// The second one.
        Ost1 = "ost1",
        /// The third one.
        Ost2 = "ost2"
    }
    /// Whose a lock is.
    Owner {
        /// The process: a POSIX lock.
        Process = "posix",
        /// The open file: an OFD lock.
        OpenFile = "ofd",
        /// The open file: a lock of the whole file by `flock`.
        Flock = "flock"
    }
}

impl Target {
    /// The OSTs.
    pub const OSTS: [Self; 3] = [Self::Ost0, Self::Ost1, Self::Ost2];

    /// Returns which servers these are, one by one.
    pub fn each(self) -> Vec<Self> {
        if self == Self::All { Self::ALL[1..].to_vec() } else { vec![self] }
    }
}

/// An entry of an access control list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AclEntry {
    /// Of whom: 1 the owner, 2 a user, 4 the group, 8 another group, 16 the mask, 32 others.
    pub tag: u16,
    /// The user or the group; [`AclEntry::NO_ID`] for the rest.
    pub id: u32,
    /// Read 4, write 2, execute 1.
    pub permissions: u16,
}

impl AclEntry {
    /// The id of an entry that has none.
    pub const NO_ID: u32 = u32::MAX;
    /// The letters of the tags.
    const TAGS: [(char, u16, bool); 6] = [
        ('u', 1, false),
        ('u', 2, true),
        ('g', 4, false),
        ('g', 8, true),
        ('m', 16, false),
        ('o', 32, false),
    ];
}

/// An access control list, as `setfacl` knows it: `u::rwx,u:5:r--,g::r-x,m::rwx,o::---`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl(pub Vec<AclEntry>);

impl fmt::Display for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, entry) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let letter =
                AclEntry::TAGS.iter().find(|one| one.1 == entry.tag).map_or('?', |one| one.0);
            let id = if entry.id == AclEntry::NO_ID { String::new() } else { entry.id.to_string() };
            let bit = |bit, letter| if entry.permissions & bit == 0 { '-' } else { letter };
            write!(f, "{comma}{letter}:{id}:{}{}{}", bit(4, 'r'), bit(2, 'w'), bit(1, 'x'))?;
        }
        Ok(())
    }
}

impl FromStr for Acl {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        word.split(',').map(entry).collect::<Option<Vec<_>>>().map(Self).ok_or(())
    }
}

fn entry(word: &str) -> Option<AclEntry> {
    let [letter, id, permissions] = word.split(':').collect::<Vec<_>>().try_into().ok()?;
    let (_, tag, _) = AclEntry::TAGS
        .into_iter()
        .find(|one| letter.chars().eq([one.0]) && one.2 != id.is_empty())?;
    let id = if id.is_empty() { AclEntry::NO_ID } else { id.parse().ok()? };
    let bits = [('r', 4), ('w', 2), ('x', 1)].into_iter().zip(permissions.chars());
    let permissions = bits.filter(|((letter, _), found)| letter == found).map(|((_, bit), _)| bit);
    Some(AclEntry { tag, id, permissions: permissions.sum() })
}
