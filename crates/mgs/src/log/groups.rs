//! The groups of a log: records that belong together, between two markers. A reader ignores groups whose
//! markers say that they are cancelled. Spec: ptlrpc-ldlm-mgs §30.

use fulmar_base::Errno;
use fulmar_lustre_wire::connect::Release;
use fulmar_lustre_wire::llog::config::{Config, ConfigRecord, Marker, MarkerFlags};
use fulmar_lustre_wire::llog::{LogRecord, RecordKind};
use fulmar_lustre_wire::{Content, Text};

use super::{Log, ORDER, encode};
use crate::records::Group;

/// A group that is not cancelled.
#[derive(Clone, Debug)]
pub(crate) struct LiveGroup {
    pub(crate) target: String,
    pub(crate) comment: String,
    pub(crate) records: Vec<Config>,
    /// The places of its markers.
    markers: [usize; 2],
}

impl Log {
    /// Appends records that belong together, between markers of this time in seconds. `step` counts
    /// the groups of a file system.
    ///
    /// # Errors
    /// As [`Log::append`]; EINVAL if a name is too long for a marker. Some records may be appended.
    pub(crate) fn append_group(
        &mut self,
        group: &Group,
        step: u32,
        release: Release,
        now: i64,
    ) -> Result<(), Errno> {
        let start = Marker {
            step,
            flags: MarkerFlags::START,
            version: release.0,
            created: now,
            target: Text::new(&group.target).ok_or(Errno::EINVAL)?,
            comment: Text::new(&group.comment).ok_or(Errno::EINVAL)?,
            ..Marker::default()
        };
        let end = Marker { flags: MarkerFlags::END, ..start };
        let marker = |marker| Config::Marker { device: String::new(), marker };
        self.append(&marker(start))?;
        group.records.iter().try_for_each(|record| self.append(record))?;
        self.append(&marker(end))
    }

    /// Cancels the groups about a target with this comment: readers ignore them.
    pub(crate) fn cancel(&mut self, target: &str, comment: &str, now: i64) {
        self.mark(target, comment, MarkerFlags::SKIP, now);
    }

    /// Marks the groups about a target with this comment, unless they are cancelled, and returns how many
    /// markers there were. Targets whose groups are marked with EXCLUDE are added, but not used; without flags
    /// they are used again.
    pub(crate) fn mark(
        &mut self,
        target: &str,
        comment: &str,
        flags: MarkerFlags,
        now: i64,
    ) -> usize {
        let mut count = 0;
        for place in 0..self.records.len() {
            let Some(marker) = marker_of(&self.records[place].1) else { continue };
            let is_it = marker.target.as_bytes() == target.as_bytes()
                && marker.comment.as_bytes() == comment.as_bytes();
            if is_it && !marker.flags.has(MarkerFlags::SKIP) {
                let kept = MarkerFlags(marker.flags.0 & !MarkerFlags::EXCLUDE.0);
                self.rewrite(place, Marker { flags: kept, ..marker }, flags, now);
                count += 1;
            }
        }
        count
    }

    /// Returns the groups that are not cancelled, in order.
    pub(crate) fn live_groups(&self) -> Vec<LiveGroup> {
        let (mut groups, mut open) = (Vec::new(), None::<LiveGroup>);
        for (place, (_, record)) in self.records.iter().enumerate() {
            if record.kind != RecordKind::CONFIG {
                continue;
            }
            match config_of(record) {
                Some(Config::Marker { marker, .. }) if marker.flags.has(MarkerFlags::SKIP) => {
                    open = None;
                }
                Some(Config::Marker { marker, .. }) if marker.flags.has(MarkerFlags::START) => {
                    let (target, comment) = (marker.target.to_string(), marker.comment.to_string());
                    let markers = [place, place];
                    open = Some(LiveGroup { target, comment, records: Vec::new(), markers });
                }
                Some(Config::Marker { .. }) => {
                    let ended = open.take().map(|mut group| {
                        group.markers[1] = place;
                        group
                    });
                    groups.extend(ended);
                }
                Some(config) => {
                    if let Some(group) = &mut open {
                        group.records.push(config);
                    }
                }
                None => {}
            }
        }
        groups
    }

    /// Cancels one group of this log.
    pub(crate) fn cancel_group(&mut self, group: &LiveGroup, now: i64) {
        for place in group.markers {
            if let Some(marker) = marker_of(&self.records[place].1) {
                self.rewrite(place, marker, MarkerFlags::SKIP, now);
            }
        }
    }

    /// Writes a marker again, with further flags.
    fn rewrite(&mut self, place: usize, marker: Marker, flags: MarkerFlags, now: i64) {
        let cancelled = if flags == MarkerFlags(0) { 0 } else { now };
        let marker = Marker { flags: marker.flags | flags, cancelled, ..marker };
        let (_, record) = &mut self.records[place];
        record.body = encode(&Config::Marker { device: String::new(), marker });
        self.changed.insert(record.index);
    }
}

fn config_of(record: &LogRecord) -> Option<Config> {
    let record = ConfigRecord::decode(&record.body.0, ORDER).ok()?;
    Some(Config::of(&record, ORDER))
}

fn marker_of(record: &LogRecord) -> Option<Marker> {
    match config_of(record)? {
        Config::Marker { marker, .. } => Some(marker),
        _ => None,
    }
}
