//! The server: HTTP on a Unix socket, and metrics on a TCP port if one is configured.
//!
//! ```text
//! POST /v1/net/show      JSON in, JSON out: one path for each operation
//! GET  /v1/table/nis     the statistics files, as text
//! GET  /metrics          for Prometheus
//! GET  /                 the web page, with what it shows: [`page`](super::page)
//! ```
//!
//! The TCP port has only the last two, which change nothing.

use std::fs;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path as UrlPath, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use fulmar_base::Errno;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::error::AdminError;
use super::live::Live;
use super::operations::{Admin, Discover, Lst, Operation, Ping, routes};
use super::places::Limits;
use super::{
    CONNECTIONS_MAX, PAUSE_MAX, QUERIES_MAX, REPLY_TIMEOUT, REQUEST_BYTES_MAX, REQUEST_TIMEOUT,
    REQUESTS_MAX, SCRAPERS_MAX, SCRAPES_MAX, connections, metrics, page, tables,
};

/// The mode of the socket: access for the node's user and group.
const SOCKET_MODE: u32 = 0o660;
/// The operations that ask other nodes.
const QUERIES: [&str; 3] = [Ping::PATH, Discover::PATH, Lst::PATH];
/// The limits of the control socket.
const LIMITS: Limits = Limits {
    connections: CONNECTIONS_MAX,
    request: REQUEST_TIMEOUT,
    pause: PAUSE_MAX,
    reply: REPLY_TIMEOUT,
};

/// Why the control socket or the metrics port cannot be opened.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum BindError {
    /// Another node answers there.
    #[error("another node answers at {path}: stop it, or name another socket with --control")]
    InUse { path: PathBuf },
    /// The system refused the socket.
    #[error("cannot make the control socket {path}: {error}; name another with --control")]
    Socket { path: PathBuf, error: io::Error },
    /// The system refused the port.
    #[error("cannot serve metrics at {address}: {error}; name another address with --metrics")]
    Metrics { address: SocketAddr, error: io::Error },
}

/// A control socket that is bound but not yet served.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    control: std::os::unix::net::UnixListener,
    metrics: Option<std::net::TcpListener>,
    pub(super) limits: Limits,
}

impl Server {
    /// Creates the socket at `path`, with its directory, and opens the port for metrics.
    ///
    /// A socket without a listener is replaced.
    ///
    /// # Errors
    /// If one of the two cannot be opened.
    pub fn bind(path: &Path, metrics: Option<SocketAddr>) -> Result<Self, BindError> {
        let path = path.to_owned();
        if std::os::unix::net::UnixStream::connect(&path).is_ok() {
            return Err(BindError::InUse { path });
        }
        let control =
            bind_socket(&path).map_err(|error| BindError::Socket { path: path.clone(), error })?;
        let listen = |address| {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let metrics = metrics
            .map(|address| listen(address).map_err(|error| BindError::Metrics { address, error }))
            .transpose()?;
        Ok(Self { path, control, metrics, limits: LIMITS })
    }

    /// Creates the socket at the first of [`default_sockets`](super::default_sockets) that is
    /// allowed.
    ///
    /// # Errors
    /// As for [`Self::bind`].
    pub fn bind_default(metrics: Option<SocketAddr>) -> Result<Self, BindError> {
        let mut forbidden = None;
        for path in super::default_sockets() {
            match Self::bind(&path, metrics) {
                Err(BindError::Socket { error, path })
                    if error.kind() == io::ErrorKind::PermissionDenied =>
                {
                    forbidden = Some(BindError::Socket { path, error });
                }
                result => return result,
            }
        }
        Err(forbidden.expect("there is at least one default"))
    }

    /// Returns the control socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the TCP address of the metrics.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref()?.local_addr().ok()
    }

    /// Serves until `stop`, in a Tokio runtime.
    ///
    /// # Errors
    /// If the runtime does not accept the sockets.
    pub async fn serve(
        self,
        admin: Arc<dyn Admin>,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let live = Arc::new(Live::new());
        let shared = Shared::new(admin.clone(), live.clone(), REQUESTS_MAX);
        let public = page::routes().route("/metrics", get(scrape));
        let control = routes()
            .merge(public.clone())
            .route("/v1/table/{name}", get(table))
            .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
            .with_state(shared);
        let sockets = tokio::net::UnixListener::from_std(self.control)?;
        let ports = self.metrics.map(tokio::net::TcpListener::from_std).transpose()?;
        let accept = async || sockets.accept().await.map(|(stream, _)| stream);
        let serve_control = connections::serve(accept, control, self.limits);
        let serve_metrics = async {
            match ports {
                Some(ports) => {
                    let accept = async || ports.accept().await.map(|(stream, _)| stream);
                    let limits = Limits { connections: SCRAPERS_MAX, ..self.limits };
                    let public = public.with_state(Shared::new(admin, live, SCRAPES_MAX));
                    connections::serve(accept, public, limits).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = serve_control => {}
            () = serve_metrics => {}
            () = stop => {}
        }
        // Another node may have replaced it; connecting shows that.
        remove_socket(&self.path);
        Ok(())
    }

    /// Serves on its own thread, until the handle is dropped.
    ///
    /// # Errors
    /// If the system creates no thread.
    pub fn spawn(self, admin: Arc<dyn Admin>) -> io::Result<ServerHandle> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("control".into()).spawn(move || {
            let served = runtime.block_on(self.serve(admin, async {
                let _ = stopped.await;
            }));
            // Pings whose client is gone must not delay the end.
            runtime.shutdown_background();
            served
        })?;
        Ok(ServerHandle { stop: Some(stop), thread: Some(thread) })
    }
}

/// A server on its own thread.
#[derive(Debug)]
pub struct ServerHandle {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<io::Result<()>>>,
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Removes the socket at a path; what is no socket stays.
pub fn remove_socket(path: &Path) {
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        // Without it there is nothing to connect to either.
        let _ = fs::remove_file(path);
    }
}

/// Binds under a temporary name, so that no client can connect before the mode is set.
fn bind_socket(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    if fs::symlink_metadata(path).is_ok_and(|found| !found.file_type().is_socket()) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "what is there is no socket"));
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let draft = PathBuf::from(name);
    remove_socket(&draft);
    let listener = std::os::unix::net::UnixListener::bind(&draft)?;
    let ready = fs::set_permissions(&draft, fs::Permissions::from_mode(SOCKET_MODE))
        .and_then(|()| fs::rename(&draft, path))
        .and_then(|()| listener.set_nonblocking(true));
    if let Err(error) = ready {
        remove_socket(&draft);
        return Err(error);
    }
    Ok(listener)
}

/// The state of every handler.
#[derive(Clone)]
pub(super) struct Shared {
    admin: Arc<dyn Admin>,
    pub(super) live: Arc<Live>,
    requests: Arc<Semaphore>,
    queries: Arc<Semaphore>,
}

impl Shared {
    fn new(admin: Arc<dyn Admin>, live: Arc<Live>, requests: usize) -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Self { admin, live, requests: places(requests), queries: places(QUERIES_MAX) }
    }

    /// Answers a request that asks other nodes.
    async fn query<T: Send + 'static>(
        self,
        f: impl FnOnce(&dyn Admin) -> Result<T, AdminError> + Send + 'static,
    ) -> Result<T, AdminError> {
        let Ok(place) = self.queries.clone().try_acquire_owned() else {
            let error = AdminError::new(Errno::EBUSY, "the node is busy with other requests");
            return Err(error.with_hint("try again when some of them have ended"));
        };
        self.run_in(place, f).await
    }

    /// Answers any other request.
    pub(super) async fn run<T: Send + 'static>(
        self,
        f: impl FnOnce(&dyn Admin) -> Result<T, AdminError> + Send + 'static,
    ) -> Result<T, AdminError> {
        let place = self.requests.clone().acquire_owned().await.expect("it is never closed");
        self.run_in(place, f).await
    }

    /// Runs a blocking function on a thread for such functions.
    async fn run_in<T: Send + 'static>(
        self,
        place: OwnedSemaphorePermit,
        f: impl FnOnce(&dyn Admin) -> Result<T, AdminError> + Send + 'static,
    ) -> Result<T, AdminError> {
        let work = move || {
            let result = f(&*self.admin);
            drop(place);
            result
        };
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| {
            let error = AdminError::new(Errno::EIO, "the node failed in this request");
            Err(error.with_hint("the node's log says where; please report it"))
        })
    }
}

/// Calls `f`, unless the node has failed: then its state is not that of a running node.
fn unless_failed<T>(
    admin: &dyn Admin,
    f: impl FnOnce(&dyn Admin) -> Result<T, AdminError>,
) -> Result<T, AdminError> {
    let check = || admin.failure().map_or(Ok(()), |why| Err(AdminError::failed(&why)));
    check()?;
    let result = f(admin);
    check()?;
    result
}

impl IntoResponse for AdminError {
    fn into_response(self) -> Response {
        let status = match Errno(-self.errno) {
            Errno::EOPNOTSUPP => StatusCode::NOT_IMPLEMENTED,
            Errno::EBUSY => StatusCode::SERVICE_UNAVAILABLE,
            Errno::ENOENT | Errno::ENODEV => StatusCode::NOT_FOUND,
            Errno::EEXIST => StatusCode::CONFLICT,
            Errno::EIO => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        };
        (status, Json(self)).into_response()
    }
}

/// Returns the handler of an operation.
pub(super) fn operation<O: Operation>(
    run: fn(&dyn Admin, O) -> Result<O::Reply, AdminError>,
) -> MethodRouter<Shared> {
    post(move |State(shared): State<Shared>, body: Bytes| async move {
        // An empty body is for requests without arguments.
        let body = if body.is_empty() { Bytes::from_static(b"{}") } else { body };
        let request: O = serde_json::from_slice(&body).map_err(|error| {
            AdminError::new(Errno::EINVAL, format!("the request is not valid: {error}"))
        })?;
        let answer = move |admin: &dyn Admin| unless_failed(admin, |admin| run(admin, request));
        if QUERIES.contains(&O::PATH) {
            shared.query(answer).await.map(Json)
        } else {
            shared.run(answer).await.map(Json)
        }
    })
}

async fn table(
    State(shared): State<Shared>,
    UrlPath(name): UrlPath<String>,
) -> Result<String, AdminError> {
    shared.run(move |admin| unless_failed(admin, |admin| tables::table(admin, &name))).await
}

async fn scrape(State(shared): State<Shared>) -> Result<Response, AdminError> {
    let text = shared.run(metrics::scrape).await?;
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}
