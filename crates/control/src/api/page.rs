//! The web page of a node, and what it shows.
//!
//! ```text
//! GET /           the page: one file, without anything from elsewhere
//! GET /v1/view    what it shows: figures with their history, troubles and tables
//! GET /v1/sample  what `fulmar top` asks for
//! ```

use axum::extract::State;
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use fulmar_top::{Sample, View};

use super::error::AdminError;
use super::live;
use super::place;
use super::server::Shared;

/// The page.
pub const PAGE: &str = include_str!("page.html");
/// Nothing of elsewhere is loaded, and no other page shows this one in a frame.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
    connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns the routes of the page.
pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/", get(page)).route("/v1/view", get(view)).route(place::PATH, get(sample))
}

async fn page() -> Response {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, Html(PAGE)).into_response()
}

async fn view(State(shared): State<Shared>) -> Result<Json<View>, AdminError> {
    let live = shared.live.clone();
    shared.run(move |admin| live.view(admin)).await.map(Json)
}

async fn sample(State(shared): State<Shared>) -> Result<Json<Sample>, AdminError> {
    shared.run(live::sample).await.map(Json)
}
