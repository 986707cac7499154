//! The replies with names and attributes of a directory that the kernel may not have read yet.
//!
//! The kernel gives each name of such a reply the epoch of when it reads it, and not that of when it has asked. So
//! before all names are dropped, it has to have read the replies in which names were told to keep before.
//!
//! `READDIRPLUS` gives the kernel names and attributes of a hundred files at once, as after a
//! lookup: only those that locks protect. The kernel gives these names the epoch of when it reads
//! the reply. So `INC_EPOCH` waits until it has read the replies of earlier epochs: it has when it
//! asks the same open directory for more, when the same thread asks for a name or for attributes,
//! or when it has given back the last file of the reply, which has attributes that it refuses, as
//! often as it was in a reply. Once is not enough: it also gives back files that it has no use for.
//! It may wait for the lookup of a name in the reply meanwhile; after a second the message is sent
//! without waiting, and once more when the reply was read.

/// The replies, in the order of their epochs. Bounded by the directories that are open: each is read by one
/// request after the other.
#[derive(Debug, Default)]
pub(crate) struct Listings(Vec<Listing>);

#[derive(Debug)]
struct Listing {
    /// The open directory.
    handle: u64,
    /// The thread that reads it; 0 if that is not visible.
    reader: u32,
    /// The last file in it, if the kernel gives that one back.
    last: Option<u64>,
    epoch: u64,
    /// Whether it was waited for in vain.
    is_late: bool,
}

impl Listings {
    /// A reply is made, which may tell names from now on.
    pub(crate) fn begin(&mut self, (handle, reader): (u64, u32), epoch: u64) {
        self.0.push(Listing { handle, reader, last: None, epoch, is_late: false });
    }

    /// It is made, and is sent after that. `last`: the last file in it, if the kernel gives that one back.
    pub(crate) fn end(&mut self, handle: u64, last: Option<u64>) {
        let one = self.0.iter_mut().find(|one| one.handle == handle);
        one.into_iter().for_each(|one| one.last = last);
    }

    /// The kernel asks for what follows in a directory, or closes it: it has read what it was told. Returns whether that
    /// was waited for in vain.
    pub(crate) fn read_by(&mut self, handle: u64) -> bool {
        self.read(|one| one.handle == handle)
    }

    /// A thread asks for something else: it has read what it was told. Returns whether that was waited for in vain.
    pub(crate) fn asked_by(&mut self, thread: u32) -> bool {
        self.read(|one| one.reader != 0 && one.reader == thread)
    }

    fn read(&mut self, is_read: impl Fn(&Listing) -> bool) -> bool {
        self.0.extract_if(.., |one| is_read(one)).fold(false, |late, one| late | one.is_late)
    }

    /// The kernel has given a file back as often as it was told: it has read all replies that end with it. Returns
    /// whether one of them was waited for in vain. Once alone would not do: a file that the kernel has no memory for is
    /// given back in the same way.
    pub(crate) fn given_back(&mut self, number: u64) -> bool {
        self.read(|one| one.last == Some(number))
    }

    /// Returns whether one that was told before an epoch is to be waited for.
    pub(crate) fn has_unread(&self, epoch: u64) -> bool {
        self.0.iter().any(|one| one.epoch < epoch && !one.is_late)
    }

    /// Those that were told before an epoch are not waited for any more.
    pub(crate) fn give_up(&mut self, epoch: u64) {
        self.0.iter_mut().for_each(|one| one.is_late |= one.epoch < epoch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tell(listings: &mut Listings, handle: u64, last: Option<u64>, epoch: u64) {
        listings.begin((handle, handle as u32 + 10), epoch);
        listings.end(handle, last);
    }

    #[test]
    fn a_reply_is_read_when_its_last_file_is_given_back_or_more_is_asked_for() {
        let mut listings = Listings::default();
        tell(&mut listings, 1, Some(70), 1);
        tell(&mut listings, 2, None, 1);
        assert!(!listings.has_unread(1) && listings.has_unread(2));
        assert!(!listings.given_back(7) && listings.has_unread(2));
        assert!(!listings.given_back(70) && listings.has_unread(2));
        assert!(!listings.read_by(1) && listings.has_unread(2));
        assert!(!listings.read_by(2) && !listings.has_unread(2));
        tell(&mut listings, 3, None, 1);
        assert!(!listings.asked_by(12) && listings.has_unread(2));
        assert!(!listings.asked_by(13) && !listings.has_unread(2));
        listings.begin((4, 0), 1);
        assert!(!listings.asked_by(0) && listings.has_unread(2), "any thread may be that one");
    }

    #[test]
    fn a_file_that_is_given_back_was_the_last_of_all_replies_that_end_with_it() {
        let mut listings = Listings::default();
        tell(&mut listings, 1, Some(70), 1);
        tell(&mut listings, 2, Some(70), 2);
        tell(&mut listings, 3, Some(80), 2);
        assert!(!listings.given_back(70) && listings.has_unread(3));
        assert!(!listings.given_back(80) && !listings.has_unread(3));
    }

    #[test]
    fn what_was_waited_for_in_vain_is_told_when_it_is_read() {
        let mut listings = Listings::default();
        tell(&mut listings, 1, Some(70), 1);
        tell(&mut listings, 2, Some(80), 2);
        listings.give_up(2);
        assert!(!listings.has_unread(2) && listings.has_unread(3));
        assert!(listings.given_back(70) && !listings.given_back(80));
        tell(&mut listings, 3, None, 2);
        listings.give_up(3);
        assert!(listings.read_by(3));
    }
}
