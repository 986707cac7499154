//! The client of the control socket.

use std::io;
use std::path::{Path, PathBuf};

use fulmar_base::Errno;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

use super::error::AdminError;
use super::operations::Operation;

/// Enough for the peers of the largest nodes.
const REPLY_BYTES_MAX: usize = 256 << 20;

/// Why a call has no reply.
#[derive(Debug, Error)]
pub enum CallError {
    /// No node listens.
    #[error(
        "no node answers at {path} ({cause}): start one with \"fulmar node\", or name its socket \
         with --control or FULMAR_CONTROL"
    )]
    NoNode {
        /// The socket.
        path: PathBuf,
        /// Why not.
        cause: Errno,
    },
    /// The user has no permission.
    #[error("no permission for the node at {path}: become root, or a member of the socket's group")]
    Forbidden {
        /// The socket.
        path: PathBuf,
    },
    /// The node refused the request.
    #[error(transparent)]
    Refused(#[from] AdminError),
    /// No node answers at an address of another machine.
    #[error(
        "no node answers at {address} ({reason}): its address and port are those of \"fulmar node --metrics\" there"
    )]
    Unreachable {
        /// The address and port.
        address: String,
        /// Why not.
        reason: String,
    },
    /// The answer is not that of a node of this release.
    #[error("invalid answer at {path}: {reason}; is it a node of this release?")]
    Garbled {
        /// The socket.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// Calls the node at a socket. Each call opens a connection, and blocks.
#[derive(Clone, Debug)]
pub struct Client {
    path: PathBuf,
}

impl Client {
    /// Returns a client for the socket, without opening it.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns a client for the first of [`default_sockets`](super::default_sockets) with a node.
    pub fn at_default() -> Self {
        let sockets = super::default_sockets();
        let answers =
            |path: &&PathBuf| std::os::unix::net::UnixStream::connect(path.as_path()).is_ok();
        let path = sockets.iter().find(answers).or(sockets.first());
        Self::new(path.expect("there is at least one default"))
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sends a request and returns the reply.
    ///
    /// # Errors
    /// If there is no node, or it refuses the request.
    pub fn call<O: Operation>(&self, operation: &O) -> Result<O::Reply, CallError> {
        let body = serde_json::to_vec(operation).map_err(|error| self.garbled(error))?;
        let reply = self.request(Method::POST, O::PATH, body)?;
        serde_json::from_slice(&reply).map_err(|error| self.garbled(error))
    }

    /// Fetches text, such as `/metrics`.
    ///
    /// # Errors
    /// As for [`Self::call`].
    pub fn get(&self, path: &str) -> Result<String, CallError> {
        let reply = self.request(Method::GET, path, Vec::new())?;
        String::from_utf8(reply).map_err(|error| self.garbled(error))
    }

    fn request(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Vec<u8>, CallError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| self.garbled(error))?;
        let (status, reply) = runtime.block_on(async {
            let stream = UnixStream::connect(&self.path).await.map_err(|e| self.no_node(e))?;
            let limit = REPLY_BYTES_MAX;
            exchange(stream, method, path, body, limit).await.map_err(|error| self.garbled(error))
        })?;
        if status == StatusCode::OK {
            return Ok(reply);
        }
        match serde_json::from_slice::<AdminError>(&reply) {
            Ok(error) => Err(CallError::Refused(error)),
            Err(_) => Err(self.garbled(format!("{status} for {path}"))),
        }
    }

    pub(super) fn no_node(&self, error: io::Error) -> CallError {
        let path = self.path.clone();
        match error.kind() {
            io::ErrorKind::PermissionDenied => CallError::Forbidden { path },
            _ => CallError::NoNode {
                path,
                cause: Errno(error.raw_os_error().unwrap_or(Errno::EIO.0)),
            },
        }
    }

    pub(super) fn garbled(&self, reason: impl ToString) -> CallError {
        CallError::Garbled { path: self.path.clone(), reason: reason.to_string() }
    }
}

/// Sends a request on a new connection. A reply of more bytes than `limit` is an error.
pub(super) async fn exchange<S>(
    stream: S,
    method: Method,
    path: &str,
    body: Vec<u8>,
    limit: usize,
) -> Result<(StatusCode, Vec<u8>), Box<dyn std::error::Error + Send + Sync>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "node")
        .header("content-type", "application/json")
        .header("connection", "close")
        .body(Full::new(Bytes::from(body)))?;
    let driver = tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), limit).collect().await?;
    driver.abort();
    Ok((status, body.to_bytes().to_vec()))
}
