//! What an administrator reads and sets of an MDT while it runs, as the files of a kernel node.

use fulmar_base::quantity::size;
use fulmar_target::parameters::{Moment, Parameter, line, number};
use fulmar_target::stats;

use crate::Mdt;
use crate::stats::NAMES;
use crate::tuning::{
    cap_mask, caps_text, kinds, kinds_text, knows_groups, knows_groups_text, nids, nids_text,
    on_mdt_max, squash, squash_text,
};

impl Mdt {
    /// Its parameters, in the order of their names.
    pub const PARAMETERS: &[Parameter<Self>] = &[
        Parameter::set(
            "lod.*.dom_stripesize",
            |mdt, _| line(mdt.tuning().on_mdt_max),
            |mdt, value| limit_on_mdt(mdt, size(value.trim())?),
        ),
        Parameter::shown("lod.*.dom_stripesize_cur_kb", |mdt, _| {
            line(mdt.on_mdt_max().ok()? >> 10)
        }),
        Parameter::set(
            "lod.*.dom_stripesize_max_kb",
            |mdt, _| line(mdt.tuning().on_mdt_max >> 10),
            |mdt, value| limit_on_mdt(mdt, u64::from(number(value)?) << 10),
        ),
        Parameter::set(
            "mdd.*.atime_diff",
            |mdt, _| line(mdt.tuning().atime_diff),
            |mdt, value| {
                let seconds = number(value)?.into();
                mdt.tune(|tuning| tuning.atime_diff = seconds);
                Ok(())
            },
        ),
        Parameter::set(
            "mdt.*.enable_cap_mask",
            |mdt, _| line(caps_text(mdt.tuning().cap_mask)),
            |mdt, value| {
                let mask = cap_mask(value)?;
                mdt.tune(|tuning| tuning.cap_mask = mask);
                Ok(())
            },
        ),
        Parameter::set(
            "mdt.*.identity_upcall",
            |mdt, _| line(knows_groups_text(mdt.tuning().knows_groups)),
            |mdt, value| {
                let knows = knows_groups(value)?;
                mdt.tune(|tuning| tuning.knows_groups = knows);
                Ok(())
            },
        ),
        Parameter::shown("mdt.*.instance", |mdt, _| line(mdt.instance())),
        Parameter::set(
            "mdt.*.job_cleanup_interval",
            |mdt, _| line(mdt.stats().jobs_kept()),
            |mdt, value| {
                mdt.stats().keep_jobs(number(value)?);
                Ok(())
            },
        ),
        Parameter::set(
            "mdt.*.job_stats",
            |mdt, moment| {
                let jobs = mdt.stats().of_jobs(moment.now.as_secs() as i64);
                Some(stats::job_stats(NAMES, &jobs))
            },
            |mdt, value| {
                mdt.stats().clear_jobs(value.trim().as_bytes());
                Ok(())
            },
        ),
        Parameter::set("mdt.*.md_stats", md_stats, |mdt, value| match value.trim() {
            "clear" | "0" => {
                mdt.stats().clear_all();
                Ok(())
            }
            value => Err(format!("{value:?} is not clear: only that is written")),
        }),
        Parameter::set(
            "mdt.*.nosquash_nids",
            |mdt, _| line(nids_text(mdt.tuning().nosquash.as_ref())),
            |mdt, value| {
                let nids = nids(value)?;
                mdt.tune(|tuning| tuning.nosquash = nids);
                Ok(())
            },
        ),
        Parameter::shown("mdt.*.num_exports", |_, moment| line(moment.exports)),
        Parameter::set(
            "mdt.*.reserved_mb",
            |mdt, _| line(mdt.data.reserved() >> 20),
            |mdt, value| {
                mdt.data.set_reserved(u64::from(number(value)?) << 20);
                Ok(())
            },
        ),
        Parameter::set(
            "mdt.*.root_squash",
            |mdt, _| line(squash_text(mdt.tuning().root_squash)),
            |mdt, value| {
                let to = squash(value)?;
                mdt.tune(|tuning| tuning.root_squash = to);
                Ok(())
            },
        ),
        Parameter::shown("osd-fulmar.*.quota_slave.enabled", |mdt, _| {
            line(kinds_text(&mdt.tuning().limited))
        }),
        Parameter::set(
            "quota.mdt",
            |_, _| None,
            |mdt, value| {
                let limited = kinds(value)?;
                mdt.tune(|tuning| tuning.limited = limited);
                Ok(())
            },
        ),
    ];
}

fn limit_on_mdt(mdt: &Mdt, bytes: u64) -> Result<(), String> {
    let most = on_mdt_max(bytes)?;
    mdt.tune(|tuning| tuning.on_mdt_max = most);
    Ok(())
}

fn md_stats(mdt: &Mdt, moment: &Moment) -> Option<String> {
    let counters = mdt.stats().all().counters;
    Some(stats::stats(NAMES, &counters, moment.now, moment.started))
}
