//! Which names of a directory will be looked up next. Spec: mdt-ost §21.6.
//!
//! Programs read a directory and then look at its files in the order of the names, as `ls -l` does. One after the
//! other they would wait for two round trips each: the attributes of those that follow are fetched meanwhile.
//!
//! The machine remembers the order of the names of 16 directories. Lookups in that order have those
//! that follow looked up too, 32 at first and up to 512 as long as they are used, each with the
//! size from its objects; 1,024 at once if reading the directory took 5 ms. A mount asks for the
//! files of a listing in the same way (`listing`). So `ls -l` of 1,000 files waits for seven round
//! trips, and on a long path for three and the growth of TCP's windows. Reading them one by one
//! waits for two each, the open and the data, or for one if the data are on the MDT and come with
//! the open (`inline`). A lookup under way is waited for, not repeated.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_lustre_wire::Name;

/// The names of a directory in its order, and how far they were looked up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ahead {
    order: Vec<Name>,
    places: BTreeMap<Name, usize>,
    /// The name after the one that was looked up last.
    next: usize,
    /// How many names were looked up in their order.
    row: u32,
    /// The first name that was not requested.
    asked: usize,
    /// How many names are asked for before they are looked up.
    window: usize,
}

/// The least and the most names that are asked for in advance of a directory that is near.
const WINDOW_MIN: usize = 32;
const WINDOW_NEAR: usize = 512;
/// The same of one that is far away.
pub(crate) const WINDOW_MAX: usize = 1024;
/// A directory that took so long to read is far away: the most names are asked for at once.
const FAR: Duration = Duration::from_millis(5);
/// How many names a program may leave out and still looks them up in their order.
const GAP: usize = 8;
/// How many names are remembered of a directory.
const NAMES_MAX: usize = 1 << 16;

impl Ahead {
    /// Adds names that were read of the directory, in their order, unless they are known; from its beginning or not. `taken`:
    /// how long that took.
    pub(crate) fn add(
        &mut self,
        names: impl Iterator<Item = Name>,
        is_beginning: bool,
        taken: Duration,
    ) {
        if is_beginning || self.order.len() > NAMES_MAX {
            let window = if taken < FAR { WINDOW_MIN } else { WINDOW_MAX };
            *self = Self { window, ..Self::default() };
        }
        // Programs leave hidden files out, and these two are never looked up.
        for name in names.filter(|name| name.as_bytes().first() != Some(&b'.')) {
            if self.places.contains_key(&name) {
                continue;
            }
            self.places.insert(name.clone(), self.order.len());
            self.order.push(name);
        }
    }

    /// A name is looked up. Returns the names to ask for now.
    pub(crate) fn looked_up(&mut self, name: &Name) -> &[Name] {
        let Some(&place) = self.places.get(name) else { return &[] };
        if place + 1 == self.next {
            // Programs look at one file several times: `ls -l` asks for its attributes, and for its label.
            return &[];
        }
        let is_in_row = (self.next..=self.next + GAP).contains(&place);
        self.next = place + 1;
        if is_in_row {
            self.row = self.row.saturating_add(1)
        } else {
            (self.row, self.window, self.asked) = (1, WINDOW_MIN, self.next)
        }
        self.asked = self.asked.max(self.next);
        // The first name alone is no row, but who looks it up has most likely read the directory for that.
        if (self.row < 2 && place > 0) || self.asked - self.next > self.window / 2 {
            return &[];
        }
        let end = (self.next + self.window).min(self.order.len());
        let from = self.asked;
        self.asked = from.max(end);
        if end == self.next + self.window {
            self.window = self.window.max(WINDOW_NEAR.min(self.window * 4));
        }
        self.order.get(from..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> Name {
        Name::new(format!("file-{number}").into_bytes()).unwrap()
    }

    fn of(count: usize) -> Ahead {
        let mut ahead = Ahead::default();
        ahead.add((0..count).map(name), true, Duration::ZERO);
        ahead
    }

    /// Returns the time in round trips until a thousand names were looked up, and how many were asked for.
    fn looked_up_in_order(mut ahead: Ahead) -> (u32, usize) {
        // The time in round trips; a name and a size are two. The directory was read before.
        let (mut now, mut known) = (1, BTreeMap::new());
        let mut asked = 0;
        for number in 0..1000 {
            let wanted = ahead.looked_up(&name(number)).to_vec();
            asked += wanted.len();
            let mut ask = |name| *known.entry(name).or_insert(now + 2);
            let answered = ask(name(number));
            for one in wanted {
                ask(one);
            }
            now = now.max(answered);
        }
        (now, asked)
    }

    #[test]
    fn a_thousand_files_cost_seven_round_trips_and_far_away_three() {
        assert_eq!(looked_up_in_order(of(1000)), (7, 999));
        let mut far = Ahead::default();
        far.add((0..1000).map(name), true, FAR);
        assert_eq!(looked_up_in_order(far), (3, 999));
    }

    #[test]
    fn far_away_many_are_asked_for_with_the_first() {
        let mut ahead = of(1000);
        assert_eq!(ahead.looked_up(&name(0)).len(), WINDOW_MIN);
        ahead.add((0..2000).map(name), true, FAR);
        assert_eq!(ahead.looked_up(&name(0)).len(), WINDOW_MAX);
        // Who does not go on in the order gets no more than others.
        ahead.add((0..1000).map(name), true, FAR);
        assert_eq!(ahead.looked_up(&name(500)), []);
        assert_eq!(ahead.looked_up(&name(501)).len(), WINDOW_MIN);
    }

    #[test]
    fn a_name_that_is_looked_up_several_times_is_one_of_the_row() {
        let (mut once, mut twice) = (of(1000), of(1000));
        for number in 0..1000 {
            let wanted = once.looked_up(&name(number)).to_vec();
            assert_eq!(twice.looked_up(&name(number)), wanted, "{number}");
            assert_eq!(twice.looked_up(&name(number)), [], "{number}");
        }
    }

    #[test]
    fn who_looks_at_single_names_gets_nothing_else() {
        let mut ahead = of(1000);
        for number in [500, 100, 900, 20, 999] {
            assert_eq!(ahead.looked_up(&name(number)), []);
        }
        assert_eq!(ahead.looked_up(&Name::new(b"unknown".to_vec()).unwrap()), []);
        // A second one after it is a row.
        assert_eq!(ahead.looked_up(&name(300)), []);
        assert_eq!(ahead.looked_up(&name(302))[0], name(303));
    }

    #[test]
    fn a_directory_that_is_read_again_begins_again() {
        let mut ahead = of(10);
        assert_eq!(ahead.looked_up(&name(0)).len(), 9);
        ahead.add([name(20), Name::new(b".hidden".to_vec()).unwrap()].into_iter(), false, FAR);
        assert_eq!(ahead.looked_up(&name(1)), [name(20)]);
        ahead.add((5..7).map(name), true, Duration::ZERO);
        assert_eq!(ahead.looked_up(&name(5)), [name(6)]);
        assert_eq!(ahead.looked_up(&name(0)), []);
    }
}
