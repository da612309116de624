//! An operator puts a client out: its socket is closed with 4411, and its tokens of before do not let it in again.

use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use http::StatusCode;
use serde_json::json;
use signaling_protocol::ClientId;
use signaling_server::http::refusal;
use tokio::sync::{mpsc, oneshot};
use tracing::info;

use super::{Edge, metrics};

/// Most operators' requests that wait for the edge's thread.
const WAITING: usize = 16;

/// A client to put out; whether it was here is answered.
struct Kick(ClientId, oneshot::Sender<bool>);

/// Kicks on their way to the edge.
pub struct Kicks(mpsc::Receiver<Kick>);

/// `POST /clients/CLIENT/kick`, and what [`Edge::kick`] has to carry out for it.
#[must_use]
pub fn kicks() -> (Router, Kicks) {
    let (kicks, asked) = mpsc::channel(WAITING);
    (Router::new().route("/clients/{client}/kick", post(kick)).with_state(kicks), Kicks(asked))
}

async fn kick(State(kicks): State<mpsc::Sender<Kick>>, Path(client): Path<String>) -> Response {
    let client = match ClientId::new(&client) {
        Ok(client) => client,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, "bad_name", &error.to_string(), None),
    };
    let (answer, was_here) = oneshot::channel();
    let sent = kicks.send(Kick(client.clone(), answer)).await;
    match (sent, was_here.await) {
        (Ok(()), Ok(was_here)) => Json(json!({ "client_id": client.as_str(), "was_here": was_here })).into_response(),
        _ => refusal(StatusCode::SERVICE_UNAVAILABLE, "draining", "this server stops", None),
    }
}

impl Edge {
    /// Carries out what operators ask. Ends when dropped.
    pub async fn kick(self, mut kicks: Kicks) {
        while let Some(Kick(client, answer)) = kicks.0.recv().await {
            let (session, was_here) = self.with(|state, _| {
                let session = state.session_of(&client);
                if let Some(tokens) = &state.identity.tokens {
                    tokens.kick(client.clone());
                }
                (session, state.core.kick(&client))
            });
            metrics::kicked();
            info!(%client, session = session.map(display), was_here, "an operator has put a client out");
            // Whoever asked may have gone.
            let _ = answer.send(was_here);
        }
    }
}
