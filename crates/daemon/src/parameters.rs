//! The parameters of a running node: its own files, those of its modules, and those of its targets.
//! Spec: lnet-admin §18, §20.

use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_control::api::{
    Admin, AdminError, GlobalSet, GlobalShow, ParameterList, ParameterSet, ParameterShow,
};
use fulmar_control::config::GlobalKey;
use fulmar_control::show::{self, ParameterName, tables};
use fulmar_lnet_wire::Nid;
use fulmar_server::{Parameters, Unset};
use fulmar_text::{integer, pattern};

use crate::admin::{Daemon, Result};
use crate::debug::{FILES, File};

impl Daemon {
    /// Returns what the patterns select, in their order.
    pub(super) fn shown_parameters(&self, request: &ParameterShow) -> Vec<show::Parameter> {
        let ParameterShow { patterns, modules } = request;
        let is_wanted = |name: &[String]| patterns.iter().any(|one| pattern::selects(one, name));
        let of_targets = self.of_targets(is_wanted);
        let of_modules = if *modules { self.of_modules() } else { Vec::new() };
        let mut found = Vec::new();
        for pattern in patterns {
            let known = of_targets.iter().chain(&of_modules);
            found.extend(known.filter(|one| one.is_selected(pattern)).cloned());
            let files = selected(pattern).filter_map(|file| {
                let value = (file.read?)(self).ok()?;
                Some(show::Parameter { name: vec![file.name.to_owned()], value })
            });
            found.extend(files);
        }
        found
    }

    /// Returns all names of which the patterns select the whole or the first parts.
    pub(super) fn listed_parameters(&self, request: &ParameterList) -> Vec<ParameterName> {
        let targets = self.parameters();
        let is_set = |name: &[String]| targets.as_ref().is_some_and(|all| all.is_writable(name));
        let of_targets = targets.as_ref().map(|all| all.names()).unwrap_or_default();
        let of_node = self.nodemap_files().into_iter().chain(self.health_check());
        let names = of_targets.into_iter().chain(of_node.map(|one| one.name));
        let of_targets =
            names.map(|name| ParameterName { is_readable: true, is_writable: is_set(&name), name });
        let of_modules = if request.modules { self.of_modules() } else { Vec::new() };
        let of_modules = of_modules.into_iter().map(|one| ParameterName {
            is_readable: true,
            is_writable: key_of(&one.name[0]).is_some(),
            name: one.name,
        });
        let files = FILES.iter().map(|file| ParameterName {
            name: vec![file.name.to_owned()],
            is_readable: file.read.is_some(),
            is_writable: file.write.is_some(),
        });
        let mut all: Vec<ParameterName> = of_targets.chain(of_modules).chain(files).collect();
        all.retain(|one| request.patterns.iter().any(|pattern| one.selected(pattern).count() > 0));
        all
    }

    /// Sets what the pattern selects, and returns the names.
    pub(super) fn set_parameters(&self, request: &ParameterSet) -> Result<Vec<String>> {
        let ParameterSet { pattern, value, modules } = request;
        let mut set = Vec::new();
        for file in selected(pattern) {
            // A kernel node opens the file, and refuses the write.
            let read_only =
                || AdminError::new(Errno::EINVAL, format!("{} is read only", file.name));
            let write = file.write.ok_or_else(read_only)?;
            write(self, value)?;
            set.push(file.name.to_owned());
        }
        for name in of_keys().filter(|name| *modules && pattern::selects(pattern, &[name])) {
            self.set_key(name, value)?;
            set.push(name.to_owned());
        }
        let none = || Unset::Unknown(pattern.clone());
        let targets = self.parameters().ok_or_else(none);
        match targets.and_then(|targets| targets.set(pattern, value)) {
            Ok(more) => set.extend(more),
            Err(Unset::Unknown(_)) if !set.is_empty() => {}
            Err(error) => return Err(refused(error)),
        }
        tracing::info!("the administrator has set {} to {value}", set.join(", "));
        Ok(set)
    }

    /// Writes into the log what the file `peers` says of a NID.
    pub(super) fn log_peer(&self, nid: Nid) {
        let peers = self.peers();
        match peers.iter().flat_map(|peer| &peer.nis).find(|ni| ni.nid == nid) {
            Some(ni) => tracing::warn!("{}", tables::peer_line(ni)),
            None => tracing::warn!("no peer {nid}"),
        }
    }

    /// Returns the parameters of the targets, if there are any.
    fn parameters(&self) -> Option<Arc<Parameters>> {
        self.hosting.serving().map(|serving| serving.parameters())
    }

    fn of_targets(&self, is_wanted: impl Fn(&[String]) -> bool) -> Vec<show::Parameter> {
        let targets = self.parameters();
        let all = targets.map(|targets| targets.selected(is_wanted)).unwrap_or_default();
        let all = all.into_iter().map(|(name, value)| show::Parameter { name, value });
        all.chain(self.nodemap_files()).chain(self.health_check()).collect()
    }

    /// Returns the parameters of modules: the global values, and what else was configured.
    fn of_modules(&self) -> Vec<show::Parameter> {
        let one = |name: &str, value: String| show::Parameter {
            name: vec![name.to_owned()],
            value: value + "\n",
        };
        let globals = self.global_show(GlobalShow {}).unwrap_or_default();
        let globals = globals.into_iter().filter_map(|(key, value)| {
            Some(one(key.parameter()?, inverted(key, value).to_string()))
        });
        let configured = self.networks.parameters.configured();
        let others = configured.filter(|(name, _)| key_of(name).is_none());
        globals.chain(others.map(|(name, value)| one(name, value.to_owned()))).collect()
    }

    fn set_key(&self, name: &str, value: &str) -> Result<()> {
        let invalid = || AdminError::new(Errno::EINVAL, format!("{value:?} is not a number"));
        let number = integer(value.trim()).and_then(|number| u32::try_from(number).ok());
        let (key, number) = key_of(name).zip(number).ok_or_else(invalid)?;
        self.global_set(GlobalSet { key, value: inverted(key, number) })
    }
}

/// Returns the files of the node that a pattern selects.
fn selected(pattern: &str) -> impl Iterator<Item = &'static File> {
    FILES.iter().filter(move |file| pattern::selects(pattern, &[file.name]))
}

/// Returns the names of the module parameters that are global values.
fn of_keys() -> impl Iterator<Item = &'static str> {
    GlobalKey::ALL.into_iter().filter_map(GlobalKey::parameter)
}

fn key_of(name: &str) -> Option<GlobalKey> {
    GlobalKey::ALL.into_iter().find(|key| key.parameter() == Some(name))
}

/// Returns the value of a module parameter for a global value, and the other way round.
fn inverted(key: GlobalKey, value: u32) -> u32 {
    if key == GlobalKey::Discovery { u32::from(value == 0) } else { value }
}

fn refused(error: Unset) -> AdminError {
    let errno = match error {
        Unset::Unknown(_) => Errno::ENOENT,
        Unset::ReadOnly(_) => Errno::EACCES,
        Unset::Invalid { .. } => Errno::EINVAL,
    };
    AdminError::new(errno, error.to_string())
}
