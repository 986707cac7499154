//! Nodes that run in hosts.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use super::namespace::run;
use super::{Host, Lab, Program};

/// How long a node may take for what it does at once on an idle machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a node is told when it starts.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    networks: String,
    routes: String,
    lnet: Vec<(&'static str, String)>,
    ksocklnd: Vec<(&'static str, String)>,
    /// The whole of it, if somebody has written it.
    verbatim: Option<String>,
}

impl Settings {
    /// Networks as the module parameter has them, such as `tcp(eth0,eth1)`.
    pub fn networks(networks: &str) -> Self {
        Self { networks: networks.to_owned(), ..Self::default() }
    }

    /// A file as it is.
    pub fn verbatim(text: &str) -> Self {
        Self { verbatim: Some(text.to_owned()), ..Self::default() }
    }

    /// Routes as the module parameter has them, such as `tcp1 10.1.0.254@tcp`.
    #[must_use]
    pub fn routes(self, routes: &str) -> Self {
        Self { routes: routes.to_owned(), ..self }
    }

    /// A parameter of the module `lnet`.
    #[must_use]
    pub fn lnet(mut self, name: &'static str, value: impl ToString) -> Self {
        self.lnet.push((name, value.to_string()));
        self
    }

    /// A parameter of the module `ksocklnd`.
    #[must_use]
    pub fn ksocklnd(mut self, name: &'static str, value: impl ToString) -> Self {
        self.ksocklnd.push((name, value.to_string()));
        self
    }

    /// The node passes on what is for others.
    #[must_use]
    pub fn router(self) -> Self {
        self.lnet("forwarding", "enabled")
    }

    fn yaml(&self) -> String {
        if let Some(text) = &self.verbatim {
            return text.clone();
        }
        let mut text = "node:\n    roles: [selftest]\n".to_owned();
        text += &format!("    networks: {}\n", self.networks);
        if !self.routes.is_empty() {
            text += &format!("    routes: {}\n", self.routes);
        }
        let modules = [("lnet", &self.lnet), ("ksocklnd", &self.ksocklnd)];
        let mut modules = modules.into_iter().filter(|(_, options)| !options.is_empty()).peekable();
        if modules.peek().is_some() {
            text += "    options:\n";
        }
        for (module, options) in modules {
            text += &format!("        {module}:\n");
            for (name, value) in options {
                text += &format!("            {name}: {value}\n");
            }
        }
        text
    }
}

/// A running node with the role selftest. It is killed when this goes.
#[derive(Debug)]
pub struct Node {
    program: Program,
    /// Its namespace must not go before it.
    host: Host,
    fulmar: PathBuf,
    control: PathBuf,
}

impl Node {
    /// Starts a node on a host, and returns when it is ready.
    ///
    /// # Errors
    /// Why it does not start.
    pub fn start(lab: &Lab, host: &Host, settings: &Settings) -> Result<Self, String> {
        let file = lab.path(&format!("{}.yaml", host.name()));
        std::fs::write(&file, settings.yaml())
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        let control = lab.path(&format!("{}.sock", host.name()));
        let fulmar = lab.fulmar().to_owned();
        let mut command = host.command(&fulmar);
        command.args(["node".as_ref(), "-c".as_ref(), file.as_os_str()]);
        let mut program = Program::start(command.env("FULMAR_CONTROL", &control))?;
        let begun = Instant::now();
        while !control.exists() {
            if begun.elapsed() > PATIENCE || program.has_ended() {
                let said = program.news().join("\n");
                return Err(format!("the node on {} does not start:\n{said}", host.name()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let node = Self { program, host: host.clone(), fulmar, control };
        // The socket is there a moment before somebody answers.
        node.comes_to(|node| node.says("lnetctl net show").is_ok())?;
        Ok(node)
    }

    /// Returns the number of its process.
    pub fn id(&self) -> u32 {
        self.program.id()
    }

    /// Returns where it runs.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Sends its process a signal, such as `STOP`, `CONT` or `KILL`.
    ///
    /// # Errors
    /// If it is gone.
    pub fn signal(&self, signal: &str) -> Result<(), String> {
        self.program.signal(signal)
    }

    /// Returns a command of the binary, such as `lnetctl net show`, for this node.
    pub fn tool(&self, words: &str) -> Command {
        let mut command = Command::new(&self.fulmar);
        command.args(words.split_whitespace()).env("FULMAR_CONTROL", &self.control);
        command
    }

    /// Runs what must succeed and returns what it printed.
    ///
    /// # Errors
    /// What it said.
    pub fn says(&self, words: &str) -> Result<String, String> {
        run(&mut self.tool(words))
    }

    /// Requires that the node finds no invariant broken.
    ///
    /// # Errors
    /// What it finds.
    pub fn check(&self) -> Result<(), String> {
        let found = self.says("lnetctl debug check");
        found.map(drop).map_err(|what| format!("the node on {}: {what}", self.host.name()))
    }

    /// Requires that the node finds no invariant broken, and has nothing to do any more.
    ///
    /// # Errors
    /// What it finds.
    pub fn rest(&self) -> Result<(), String> {
        let found = self.says("lnetctl debug check --idle --timeout 20");
        found.map(drop).map_err(|what| format!("the node on {}: {what}", self.host.name()))
    }

    /// Waits until something is so.
    ///
    /// # Errors
    /// If it does not come to be so for long.
    pub fn comes_to(&self, is_so: impl Fn(&Self) -> bool) -> Result<(), String> {
        let begun = Instant::now();
        while !is_so(self) {
            if begun.elapsed() > PATIENCE {
                return Err(format!("the node on {} does not come to it", self.host.name()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_a_file_as_nodes_read_it() {
        let settings = Settings::networks("tcp(eth0)").routes("tcp1 10.1.0.254@tcp").router();
        let expected = "node:
    roles: [selftest]
    networks: tcp(eth0)
    routes: tcp1 10.1.0.254@tcp
    options:
        lnet:
            forwarding: enabled
";
        assert_eq!(settings.yaml(), expected);
    }
}
