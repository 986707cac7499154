//! Serving the connections of a listener: one request on each, within the limits of its place.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use super::REQUEST_BYTES_MAX;
use super::places::{Limits, Phase, Places};

/// How often a connection is checked for its limits of time.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// How long to wait if a connection cannot be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections and serves each in a task of its own, without end.
pub(super) async fn serve<S>(
    accept: impl AsyncFn() -> io::Result<S>,
    router: Router,
    limits: Limits,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shared = Arc::new(Shared { places: Mutex::new(Places::new(limits)), freed: Notify::new() });
    loop {
        let Ok(stream) = accept().await else {
            // The process has no file descriptors.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        shared.make_room().await;
        let end = Arc::new(Notify::new());
        let number = shared.places().add(Instant::now(), end.clone());
        let seat = Arc::new(Seat { number, shared: shared.clone() });
        let router = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = serve_one(stream, router, seat.clone()) => {}
                () = seat.late() => {}
                () = end.notified() => {}
            }
        });
        // A request that has arrived is read before the next client can take the place.
        tokio::task::yield_now().await;
    }
}

async fn serve_one<S>(stream: S, router: TowerToHyperService<Router>, seat: Arc<Seat>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = TokioIo::new(WatchedStream { stream, seat: seat.clone() });
    let service = service_fn(move |request| {
        let (router, seat) = (router.clone(), seat.clone());
        async move { answer(&router, &seat, request).await }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .serve_connection(stream, service);
    // A client that disconnects is not an error.
    let _ = connection.await;
}

/// Receives the rest of a request, and answers it.
async fn answer(
    router: &TowerToHyperService<Router>,
    seat: &Seat,
    request: hyper::Request<Incoming>,
) -> Result<Response, Infallible> {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(Body::new(body), REQUEST_BYTES_MAX).await else {
        return Ok(StatusCode::PAYLOAD_TOO_LARGE.into_response());
    };
    seat.enter(Phase::Node);
    let response = router.call(Request::from_parts(head, Body::from(body))).await;
    seat.enter(Phase::Reply);
    response
}

/// The state of the connections of a listener.
struct Shared {
    places: Mutex<Places<Arc<Notify>>>,
    /// Notified when a connection has ended, or waits for its client.
    freed: Notify,
}

impl Shared {
    fn places(&self) -> MutexGuard<'_, Places<Arc<Notify>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is a place.
    async fn make_room(&self) {
        loop {
            let room = self.places().make_room();
            match room {
                Ok(replaced) => {
                    if let Some(end) = replaced {
                        end.notify_one();
                    }
                    return;
                }
                Err(_) => self.freed.notified().await,
            }
        }
    }
}

/// The place of a connection, until it is dropped.
struct Seat {
    number: u64,
    shared: Arc<Shared>,
}

impl Seat {
    fn enter(&self, phase: Phase) {
        self.shared.places().enter(Instant::now(), self.number, phase);
        self.shared.freed.notify_one();
    }

    /// Returns when the client has taken too long.
    async fn late(&self) {
        while !self.shared.places().is_late(Instant::now(), self.number) {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shared.places().remove(self.number);
        self.shared.freed.notify_one();
    }
}

/// A stream whose writes are noted.
struct WatchedStream<S> {
    stream: S,
    seat: Arc<Seat>,
}

impl<S> WatchedStream<S> {
    fn note(&self, written: &Poll<io::Result<usize>>) {
        if matches!(written, Poll::Ready(Ok(count)) if *count > 0) {
            self.seat.shared.places().read(Instant::now(), self.seat.number);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, bytes)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.note(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
