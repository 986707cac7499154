//! Nodes of the binary, run in network namespaces.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_link::{Namespace, Program, Scratch, output};

/// Timeout of operations that take no time on an idle machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Resources to run nodes: names for namespaces, a directory for files, and the binary.
#[derive(Debug)]
pub struct Runner {
    scratch: Scratch,
    fulmar: PathBuf,
}

impl Runner {
    /// Prepares to run nodes of the binary `fulmar`.
    ///
    /// # Errors
    /// Why network namespaces are not available.
    pub fn new(fulmar: &Path) -> Result<Self, String> {
        let scratch = Scratch::new().map_err(|error| error.to_string())?;
        Ok(Self { scratch, fulmar: fulmar.to_owned() })
    }

    /// Creates a network namespace.
    ///
    /// # Errors
    /// The error of the system.
    pub fn namespace(&self, name: &str) -> Result<Arc<Namespace>, String> {
        self.scratch.namespace(name).map(Arc::new).map_err(|error| error.to_string())
    }

    /// Returns the path of a temporary file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path(name)
    }

    /// Returns the binary.
    pub fn fulmar(&self) -> &Path {
        &self.fulmar
    }

    /// Writes a configuration file, and returns its path.
    ///
    /// # Errors
    /// The error of the system.
    pub fn write_settings(&self, name: &str, settings: &Settings) -> Result<PathBuf, String> {
        let file = self.path(&format!("{name}.yaml"));
        std::fs::write(&file, settings.yaml())
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        Ok(file)
    }
}

/// The configuration of a node.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    networks: String,
    routes: String,
    lnet: Vec<(&'static str, String)>,
    ksocklnd: Vec<(&'static str, String)>,
    /// The complete file, if given.
    verbatim: Option<String>,
}

impl Settings {
    /// Networks in the syntax of the module parameter, such as `tcp(eth0,eth1)`.
    pub fn networks(networks: &str) -> Self {
        Self { networks: networks.to_owned(), ..Self::default() }
    }

    /// Uses `text` as the complete configuration file.
    pub fn verbatim(text: &str) -> Self {
        Self { verbatim: Some(text.to_owned()), ..Self::default() }
    }

    /// Adds routes in the syntax of the module parameter, such as `tcp1 10.1.0.254@tcp`.
    #[must_use]
    pub fn routes(self, routes: &str) -> Self {
        Self { routes: routes.to_owned(), ..self }
    }

    /// Sets a parameter of the module `lnet`.
    #[must_use]
    pub fn lnet(mut self, name: &'static str, value: impl ToString) -> Self {
        self.lnet.push((name, value.to_string()));
        self
    }

    /// Sets a parameter of the module `ksocklnd`.
    #[must_use]
    pub fn ksocklnd(mut self, name: &'static str, value: impl ToString) -> Self {
        self.ksocklnd.push((name, value.to_string()));
        self
    }

    /// Makes the node a router.
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

/// A running node with the role selftest. It is killed when this is dropped.
#[derive(Debug)]
pub struct Node {
    program: Program,
    /// Dropped after the program, which needs the namespace.
    namespace: Arc<Namespace>,
    fulmar: PathBuf,
    control: PathBuf,
}

impl Node {
    /// Starts a node in a namespace and waits until it is ready.
    ///
    /// # Errors
    /// Why the node does not start.
    pub fn start(
        runner: &Runner,
        namespace: &Arc<Namespace>,
        settings: &Settings,
    ) -> Result<Self, String> {
        let name = namespace.name();
        let file = runner.write_settings(name, settings)?;
        let control = runner.path(&format!("{name}.sock"));
        let fulmar = runner.fulmar().to_owned();
        let mut command = namespace.command(&fulmar);
        command.args(["node".as_ref(), "-c".as_ref(), file.as_os_str()]);
        let mut program = Program::start(command.env("FULMAR_CONTROL", &control))?;
        let begun = Instant::now();
        while !control.exists() {
            if begun.elapsed() > TIMEOUT || program.has_ended() {
                let printed = program.new_lines().join("\n");
                return Err(format!("the node in {name} does not start:\n{printed}"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let node = Self { program, namespace: namespace.clone(), fulmar, control };
        // The socket exists shortly before it is served.
        node.wait_until("ready", |node| node.run("lnetctl net show").is_ok())?;
        Ok(node)
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.program.id()
    }

    /// Sends its process a signal, such as `STOP`, `CONT` or `KILL`.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn signal(&self, signal: &str) -> Result<(), String> {
        self.program.signal(signal)
    }

    /// Returns the lines of its log since the last call.
    pub fn new_log(&mut self) -> Vec<String> {
        self.program.new_lines()
    }

    /// Returns the path of its control socket.
    pub fn control(&self) -> &Path {
        &self.control
    }

    /// Returns a command of the binary, such as `lnetctl net show`, for this node.
    pub fn tool(&self, words: &str) -> Command {
        let mut command = Command::new(&self.fulmar);
        command.args(words.split_whitespace()).env("FULMAR_CONTROL", &self.control);
        command
    }

    /// Runs a command of the binary for this node and returns its output.
    ///
    /// # Errors
    /// The output of the command, if it failed.
    pub fn run(&self, words: &str) -> Result<String, String> {
        output(&mut self.tool(words)).map_err(|error| error.to_string())
    }

    /// Requires that the self-check of the node finds no broken invariant.
    ///
    /// # Errors
    /// The broken invariants.
    pub fn check(&self) -> Result<(), String> {
        self.checked("lnetctl debug check")
    }

    /// Requires the same, and that the node is idle.
    ///
    /// # Errors
    /// The broken invariants.
    pub fn check_idle(&self) -> Result<(), String> {
        self.checked("lnetctl debug check --idle --timeout 20")
    }

    fn checked(&self, words: &str) -> Result<(), String> {
        let name = self.namespace.name();
        self.run(words).map(drop).map_err(|found| format!("the node in {name}: {found}"))
    }

    /// Waits until a condition holds.
    ///
    /// # Errors
    /// Fails if it does not hold after 30 seconds; `what` describes the condition.
    pub fn wait_until(&self, what: &str, holds: impl Fn(&Self) -> bool) -> Result<(), String> {
        let begun = Instant::now();
        while !holds(self) {
            if begun.elapsed() > TIMEOUT {
                return Err(format!("the node in {} is not {what}", self.namespace.name()));
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
    fn settings_are_written_as_a_configuration_file() {
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
