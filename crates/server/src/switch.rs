//! `POST /admin/drain` and `POST /admin/undrain` for operators. The servers' `run` waits for the
//! switch. A node then hands its clients off, and a balancer closes their sockets.

use ::http::StatusCode;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::json;

use crate::http::refusal;
use crate::{Health, Shutdown};

/// The operator's drain switch. Clones share it.
/// Unlike a stop signal it can be reversed, and the process stays.
#[derive(Clone)]
pub struct DrainSwitch {
    health: Health,
    shutdown: Shutdown,
}

impl DrainSwitch {
    /// Creates the switch of a server. It sets its state in `health`.
    #[must_use]
    pub fn new(health: Health, shutdown: Shutdown) -> Self {
        Self { health, shutdown }
    }

    /// Returns `POST /drain` and `POST /undrain`, for [`crate::admin::operator_router`].
    /// Both are idempotent. A stopping server answers `/undrain` with 409.
    pub fn routes(&self) -> Router {
        let drain = async |State(switch): State<Self>| switch.turn(true);
        let undrain = async |State(switch): State<Self>| switch.turn(false);
        Router::new().route("/drain", post(drain)).route("/undrain", post(undrain)).with_state(self.clone())
    }

    /// Waits until the server is drained by the switch, or with `false` until it is not.
    pub async fn turned(&self, on: bool) {
        self.health.drained_by_operator(on).await;
    }

    /// Drains the server, or undrains it with `false`. Returns the answer of the routes: 200, or
    /// 409 if a stopping server cannot be undrained.
    pub fn turn(&self, on: bool) -> Response {
        if !on && self.shutdown.has_begun() {
            let message = "this server stops and cannot be undrained";
            return refusal(StatusCode::CONFLICT, "stopping", message, None);
        }
        self.health.set_out_of_service(on);
        Json(json!({ "draining": on })).into_response()
    }
}

#[cfg(test)]
mod tests {
    use ::http::Request;

    use super::*;
    use crate::testing::ask;

    #[tokio::test]
    async fn stopping_server_cannot_be_undrained() {
        let (health, shutdown) = (Health::of_node(), Shutdown::default());
        let routes = DrainSwitch::new(health.clone(), shutdown.clone()).routes();
        shutdown.begin();
        health.set_stopping();
        let (status, body) = ask(&routes, Request::post("/undrain")).await;
        assert!(status == 409 && body.contains(r#""code":"stopping""#), "{status} {body}");
        assert_eq!(health.obstacle(), Some("draining"));
    }
}
