//! The file of `fulmar node -c`: an lnet.conf with a key `node:` for settings of Fulmar.
//!
//! ```text
//! node:
//!     roles: [lnet, selftest]
//!     targets: [/srv/mgs]              # directories that "fulmar mkfs" has made
//!     accept: secure                   # or all, none
//!     accept_port: 988
//!     control: /run/fulmar/control.sock
//!     metrics: 127.0.0.1:9988
//!     networks: tcp(eth0)              # or ip2nets:, as module parameters have them
//!     routes: tcp1 10.0.0.254@tcp
//!     forwarding: enabled              # or disabled; default: if this node is a gateway
//!     options:
//!         lnet:
//!             lnet_retry_count: 3
//!         ksocklnd:
//!             credits: 1024
//!         lnet_selftest:
//!             session_timeout: 100
//! net: ...                             # the rest is lnet.conf
//! ```
//!
//! A file of `options lnet …` lines, as in modprobe.d, is also accepted.

use std::net::SocketAddr;
use std::path::PathBuf;

use fulmar_lnet::{Globals, RoutingConfig};
use fulmar_lnet_wire::Nid;

use super::diagnostic::{Diagnostic, Source, Text};
use super::globals::{self, GlobalKey};
use super::interfaces::{self, Interfaces, NiSpec, ResolveError};
use super::lnet_conf::TOP_KEYS;
use super::model::{LnetConf, RouteConf};
use super::module_strings::ModuleOptions;
use super::parameters::Module;
use super::yaml::{self, Node};

type Result<T> = std::result::Result<T, Diagnostic>;

const NODE_KEYS: [&str; 12] = [
    "roles",
    "targets",
    "accept",
    "accept_nid",
    "accept_port",
    "control",
    "metrics",
    "networks",
    "ip2nets",
    "routes",
    "forwarding",
    "options",
];

/// A role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// LNet: answers pings, is discovered.
    Lnet,
    /// LNet selftest: a test node, and the console of `lst`.
    Selftest,
}

/// The configuration of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeConfig {
    /// Its roles; empty means [`Role::Lnet`].
    pub roles: Vec<Role>,
    /// The directories of the targets that it serves.
    pub targets: Vec<PathBuf>,
    /// Its control socket, if not the default one.
    pub control: Option<PathBuf>,
    /// The TCP address of its metrics, if any.
    pub metrics: Option<SocketAddr>,
    /// The content of lnet.conf.
    pub lnet: LnetConf,
    /// The module parameters.
    pub options: ModuleOptions,
}

impl NodeConfig {
    /// Parses the file of a node.
    ///
    /// # Errors
    /// Points at the first error.
    pub fn parse(source: &Source) -> Result<Self> {
        let mut config = Self::default();
        if is_modprobe(&source.text) {
            config.options.read_lines(source.whole())?;
            return Ok(config);
        }
        let known: Vec<&str> = ["node"].into_iter().chain(TOP_KEYS).collect();
        for (key, value) in yaml::parse(source)?.entries("the file")? {
            match key.s {
                "node" => config.read_node(value)?,
                _ => config.lnet.read(key, value, &known)?,
            }
            if !config.lnet.nets.is_empty() && config.options.networks.is_some() {
                let error = key.error("networks are given twice: by \"net\" and by \"networks\"");
                return Err(error.with_help("keep one of the two"));
            }
        }
        Ok(config)
    }

    /// Sets a module parameter, for an option of the command line.
    ///
    /// # Errors
    /// Points into `value`.
    pub fn set(&mut self, module: Module, name: &str, value: &str) -> Result<()> {
        let source = Source::new(format!("{name}="), value);
        let name = Text { s: name, ..source.whole() };
        self.options.set(module, name, source.whole())
    }

    /// Adds a role, for an option of the command line.
    ///
    /// # Errors
    /// If the role is unknown; the help lists the roles.
    pub fn add_role(&mut self, name: &str) -> Result<()> {
        let source = Source::new("--role", name);
        self.roles.push(role(source.whole())?);
        Ok(())
    }

    /// Replaces all networks of the file by `networks=`.
    ///
    /// # Errors
    /// Points into `networks`.
    pub fn set_networks(&mut self, networks: &str) -> Result<()> {
        self.lnet.nets.clear();
        self.lnet.ip2nets.clear();
        self.options.ip2nets = None;
        self.set(Module::Lnet, "networks", networks)
    }

    /// Returns the global values: those of the parameters, then those of `global:`.
    ///
    /// # Errors
    /// If a value conflicts with others.
    pub fn globals(&self) -> std::result::Result<Globals, String> {
        let mut globals = self.options.parameters.globals()?;
        globals::set_all(&mut globals, &self.lnet.globals)?;
        if let Some(range) = self.lnet.numa_range {
            globals::set(&mut globals, GlobalKey::NumaRange, range)?;
        }
        Ok(globals)
    }

    /// Returns the settings of routing for a node that has the NIDs `own`.
    ///
    /// By default a node forwards if `routes=` names it as a gateway.
    /// Spec: lnet-behaviour §8.7, §13.4.
    pub fn routing(&self, own: &[Nid]) -> RoutingConfig {
        let mut routing = self.options.parameters.routing();
        routing.forwarding = match self.options.parameters.text(Module::Lnet, "forwarding") {
            Some("enabled") => true,
            Some("disabled") => false,
            _ => self.options.routes.iter().any(|route| own.contains(&route.gateway)),
        };
        routing.forwarding = self.lnet.routing.unwrap_or(routing.forwarding);
        let counts = self.lnet.buffers.clone().unwrap_or_default();
        routing.buffers = counts.over(routing.buffers);
        routing
    }

    /// Returns the routes of `routes=` for a node that has the NIDs `own`. The text may be that of
    /// a whole cluster: entries that do not apply are ignored.
    pub fn shared_routes(&self, own: &[Nid]) -> Vec<RouteConf> {
        let of_others = |route: &&RouteConf| !own.contains(&route.gateway);
        self.options.routes.iter().filter(of_others).cloned().collect()
    }

    /// Returns the NIs, with the addresses of the interfaces. The default network is `tcp`.
    ///
    /// # Errors
    /// If an interface or a network is not available; the help lists the available ones.
    pub fn nis(
        &self,
        interfaces: &dyn Interfaces,
    ) -> std::result::Result<Vec<NiSpec>, ResolveError> {
        interfaces::node_nis(self, interfaces)
    }

    /// Returns all that keeps the networks from being started; [`Self::nis`] reports the first.
    pub fn problems(&self, interfaces: &dyn Interfaces) -> Vec<ResolveError> {
        interfaces::node_problems(self, interfaces)
    }

    /// Returns what is configured and has no effect.
    pub fn unused(&self) -> Vec<String> {
        let foreign = self.options.foreign.iter();
        let foreign = foreign.map(|module| format!("options of the module {module} are not used"));
        let parameters = self.options.parameters.unused().into_iter();
        let parameters = parameters.map(|parameter| format!("{parameter} has no effect"));
        let nets = self.lnet.nets.iter();
        let of_nis = nets.flat_map(|net| net.nis.iter().flat_map(|ni| ni.unused(net.net)));
        foreign.chain(parameters).chain(of_nis).collect()
    }

    fn read_node(&mut self, node: &Node<'_>) -> Result<()> {
        for (key, value) in node.entries("node")? {
            match key.s {
                "roles" => {
                    let roles = value.items("roles")?.iter();
                    self.roles = roles.map(|r| role(r.text("a role")?)).collect::<Result<_>>()?;
                }
                "targets" => {
                    let targets = value.items("targets")?.iter();
                    self.targets = targets
                        .map(|one| Ok(one.text("a directory")?.s.into()))
                        .collect::<Result<_>>()?;
                }
                "control" => self.control = Some(value.text(key.s)?.s.into()),
                "metrics" => {
                    let text = value.text(key.s)?;
                    self.metrics = Some(text.s.parse().map_err(|_| {
                        text.error(format!("\"{}\" is not an address and a port", text.s))
                            .with_help("write one such as 127.0.0.1:9988 or [::]:9988")
                    })?);
                }
                "options" => self.read_options(value)?,
                parameter if NODE_KEYS.contains(&parameter) => {
                    self.options.set(Module::Lnet, key, value.text(key.s)?)?;
                }
                _ => return Err(key.unknown("key", &NODE_KEYS)),
            }
        }
        Ok(())
    }

    fn read_options(&mut self, node: &Node<'_>) -> Result<()> {
        for (name, parameters) in node.entries("options")? {
            let Some(module) = Module::of_name(name.s) else {
                return Err(name.unknown("module", &["lnet", "ksocklnd", "lnet_selftest"]));
            };
            for (key, value) in parameters.entries(name.s)? {
                self.options.set(module, key, value.text(key.s)?)?;
            }
        }
        Ok(())
    }
}

fn role(text: Text<'_>) -> Result<Role> {
    match text.s {
        "lnet" => Ok(Role::Lnet),
        "selftest" => Ok(Role::Selftest),
        _ => Err(text.unknown("role", &["lnet", "selftest"])),
    }
}

/// Returns whether the first line that is neither empty nor a comment begins with a command of
/// modprobe.d.
fn is_modprobe(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    let command = first.and_then(|line| line.split_whitespace().next());
    command.is_some_and(|word| MODPROBE_COMMANDS.contains(&word))
}

const MODPROBE_COMMANDS: [&str; 6] =
    ["options", "alias", "blacklist", "install", "remove", "softdep"];
