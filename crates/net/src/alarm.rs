//! The calls that a machine needs for its timeouts.

use fulmar_base::Time;

/// For when the next call of a machine was requested.
///
/// The requests of several threads may arrive in any order: who takes them keeps the earliest.
#[derive(Debug)]
pub(crate) struct Alarm(Time);

impl Alarm {
    /// No call was requested.
    pub(crate) const NONE: Self = Self(Time::MAX);

    /// The machine is being called.
    pub(crate) fn fired(&mut self) {
        *self = Self::NONE;
    }

    /// Sets the next deadline of the machine. Returns for when a call is to be requested, if none is in time.
    pub(crate) fn set(&mut self, next: Option<Time>) -> Option<Time> {
        let next = next.filter(|next| *next < self.0)?;
        self.0 = next;
        Some(next)
    }
}
