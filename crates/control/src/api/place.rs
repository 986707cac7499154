//! Where a node is asked what it says of itself: at its control socket, or at the port of another machine.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use fulmar_top::Sample;
use hyper::{Method, StatusCode};
use tokio::net::{TcpStream, UnixStream};

use super::client::{CallError, Client, exchange};
use super::{AdminError, SAMPLE_BYTES_MAX};

/// The path of samples.
pub(super) const PATH: &str = "/v1/sample";

/// Where a node is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Its control socket.
    Socket(PathBuf),
    /// Host and port of its metrics.
    Port(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(f),
            Self::Port(address) => f.write_str(address),
        }
    }
}

impl std::str::FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return Ok(Self::Socket(PathBuf::from(text)));
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Self::Port(text.to_owned()))
            }
            _ => Err(format!(
                "{text:?} is neither HOST:PORT, as of \"fulmar node --metrics\", nor the path of a control socket, \
                 such as ./node.sock"
            )),
        }
    }
}

impl Place {
    /// Asks the node what it says of itself.
    ///
    /// # Errors
    /// If it does not answer in time, or with something else.
    pub fn sample(&self, timeout: Duration) -> Result<Sample, CallError> {
        let name = self.to_string();
        let garbled = |reason: String| Client::new(&name).garbled(reason);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| garbled(error.to_string()))?;
        let asked = runtime.block_on(async { tokio::time::timeout(timeout, self.ask()).await });
        // A name that is not resolved yet does not keep anybody waiting.
        runtime.shutdown_background();
        let late = || garbled(format!("it took longer than {} s", timeout.as_secs()));
        let (status, reply) = asked.map_err(|_| late())??;
        if status == StatusCode::OK {
            return serde_json::from_slice(&reply).map_err(|error| garbled(error.to_string()));
        }
        match serde_json::from_slice::<AdminError>(&reply) {
            Ok(error) => Err(CallError::Refused(error)),
            Err(_) => Err(garbled(format!("{status} for {PATH}"))),
        }
    }

    async fn ask(&self) -> Result<(StatusCode, Vec<u8>), CallError> {
        let (get, limit) = (Method::GET, SAMPLE_BYTES_MAX);
        let asked = match self {
            Self::Socket(path) => {
                let client = Client::new(path);
                let stream = UnixStream::connect(path).await;
                exchange(stream.map_err(|e| client.no_node(e))?, get, PATH, vec![], limit).await
            }
            Self::Port(address) => {
                let unreachable = |error: std::io::Error| CallError::Unreachable {
                    address: address.clone(),
                    reason: error.to_string(),
                };
                let stream = TcpStream::connect(address).await.map_err(unreachable)?;
                exchange(stream, get, PATH, vec![], limit).await
            }
        };
        asked.map_err(|error| Client::new(self.to_string()).garbled(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_tells_sockets_from_ports() {
        assert_eq!("./a.sock".parse(), Ok(Place::Socket("./a.sock".into())));
        assert_eq!("node7:9988".parse(), Ok(Place::Port("node7:9988".into())));
        assert_eq!("[::1]:9988".parse(), Ok(Place::Port("[::1]:9988".into())));
        for text in ["a.sock", "node7:", ":9988", "node7:99999", ""] {
            assert!(text.parse::<Place>().unwrap_err().contains("neither HOST:PORT"), "{text}");
        }
    }
}
