//! The baseline of forwarding: haproxy in TCP mode between the same two programs.
//!
//! A node connects to the address in the NID of the other, and its own address identifies it, so
//! haproxy must be transparent. It listens in one namespace, which has the address of the server,
//! and connects from another, which has the address of the client.

use std::path::Path;

use super::join;
use crate::lab::{Host, Lab, Program};

/// A client, haproxy and a server in a row; both nodes are on `tcp`.
#[derive(Debug)]
pub struct ProxyPath {
    /// At 10.1.0.1.
    pub client: Host,
    /// At 10.2.0.1.
    pub server: Host,
    /// haproxy itself.
    pub proxy: Program,
    /// Its namespaces: on the client side and on the server side.
    _sides: [Host; 2],
}

/// The NIDs of a row with haproxy.
pub const CLIENT: &str = "10.1.0.1@tcp";
/// See [`CLIENT`].
pub const SERVER: &str = "10.2.0.1@tcp";

const CLIENT_IP: &str = "10.1.0.1";
const SERVER_IP: &str = "10.2.0.1";

impl ProxyPath {
    /// Creates the network and starts haproxy. With `splice` the kernel moves the data, which is
    /// not the default.
    ///
    /// # Errors
    /// The error of the system, or that haproxy is not installed.
    pub fn new(lab: &Lab, splice: bool) -> Result<Self, String> {
        let (client, server) = (lab.host("client")?, lab.host("server")?);
        let (front, back) = (lab.host("front")?, lab.host("back")?);
        join((&client, "eth0"), (&front, "eth0"), ["10.1.0.1/16", "10.1.0.254/16"], None)?;
        join((&back, "eth0"), (&server, "eth0"), ["10.2.0.254/16", "10.2.0.1/16"], None)?;
        client.ip(&["route", "add", "10.2.0.0/16", "via", "10.1.0.254"])?;
        server.ip(&["route", "add", "10.1.0.0/16", "via", "10.2.0.254"])?;
        front.address("lo", &format!("{SERVER_IP}/32"))?;
        back.address("lo", &format!("{CLIENT_IP}/32"))?;
        let file = lab.path("haproxy.cfg");
        let text = configuration(front.namespace(), back.namespace(), splice);
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        let mut command = front.command(Path::new("haproxy"));
        let mut proxy = Program::start(command.args(["-V", "-db", "-f"]).arg(&file))?;
        proxy.wait_for("Available polling systems")?;
        Ok(Self { client, server, proxy, _sides: [front, back] })
    }
}

/// Returns the minimum for TCP mode; everything else has the defaults of the Debian package.
fn configuration(front: &str, back: &str, splice: bool) -> String {
    let option = if splice { "option splice-auto" } else { "no option splice-auto" };
    format!(
        "defaults
    mode tcp
    {option}
    timeout connect 5s
    timeout client 1h
    timeout server 1h
listen there
    bind {SERVER_IP}:988 namespace {front}
    server node {SERVER_IP}:988 namespace {back} source {CLIENT_IP}
listen back
    bind {CLIENT_IP}:988 namespace {back}
    server node {CLIENT_IP}:988 namespace {front} source {SERVER_IP}
"
    )
}
