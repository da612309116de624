//! Routes for health (`/livez`, `/readyz`, `/readyz/clients`), `/metrics`, and operators' drains.
//! The servers report their state to [`Health`] and mount [`router`] on the internal listener. They
//! wait for drains: a node then hands its clients off, and a balancer closes their sockets.

use ::http::StatusCode;
use ::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;
use tokio::sync::watch;

use crate::http::refusal;
use crate::metrics::METRICS;
use crate::telemetry;

/// Readiness of this server. Clones share it. It starts as not ready. Each change also sets the
/// metrics `signaling_ready` and `signaling_draining`.
#[derive(Clone)]
pub struct Health {
    state: watch::Sender<State>,
    is_for_clients: bool,
}

#[derive(Debug)]
struct State {
    /// Reason why the server cannot take work, apart from a drain or stop.
    obstacle: Option<&'static str>,
    /// `true` from an operator's drain to the undrain.
    out_of_service: bool,
    stops: bool,
    /// Reason why new clients should use another server; `None`: they need not.
    elsewhere: Option<String>,
}

impl Health {
    /// [`Health::obstacle`] of a server that drains or stops.
    pub const DRAINING: &str = "draining";

    /// Creates the health of a node. Its obstacle is `starting` until [`Health::set_ready`].
    pub fn of_node() -> Self {
        let state = State { obstacle: Some("starting"), out_of_service: false, stops: false, elsewhere: None };
        let health = Self { state: watch::Sender::new(state), is_for_clients: false };
        health.publish();
        health
    }

    /// Creates a balancer's health: its `/readyz` also fails if new clients should go elsewhere.
    pub fn of_balancer() -> Self {
        Self { is_for_clients: true, ..Self::of_node() }
    }

    /// Sets whether the server can take work. If not, `reason` is its obstacle; else it is ignored.
    /// A server that drains or stops stays not ready.
    pub fn set_ready(&self, ready: bool, reason: &'static str) {
        let obstacle = if ready { None } else { Some(reason) };
        self.change(|state| state.obstacle = obstacle);
    }

    /// Starts an operator's drain of this server, or ends it with `false`, and returns at once the
    /// answer of [`drain_routes`]: 200, or 409 if a stopping server cannot be undrained. A drained
    /// server is not ready, even if it could take work.
    pub fn set_drained(&self, drained: bool) -> Response {
        if !drained && self.state.borrow().stops {
            let message = "this server stops and cannot be undrained";
            return refusal(StatusCode::CONFLICT, "stopping", message, None);
        }
        self.change(|state| state.out_of_service = drained);
        Json(json!({ "draining": drained })).into_response()
    }

    /// Waits until an operator's drain is on, or with `false` off. Returns at once if that is the
    /// state already. A stop signal does not count.
    pub async fn drained_by_operator(&self, drained: bool) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.state.subscribe().wait_for(|state| state.out_of_service == drained).await;
    }

    /// Waits until the server can take work, whether or not it drains.
    pub async fn until_ready(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.state.subscribe().wait_for(|state| state.obstacle.is_none()).await;
    }

    /// Marks the server as stopping, permanently: its obstacle is [`Health::DRAINING`].
    pub fn set_stopping(&self) {
        self.change(|state| state.stops = true);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        self.state.send_modify(change);
        self.publish();
    }

    fn publish(&self) {
        let obstacle = self.obstacle();
        METRICS.ready.set(obstacle.is_none().into());
        METRICS.draining.set((obstacle == Some(Self::DRAINING)).into());
    }

    /// Returns the reason why the server takes no work, [`Health::DRAINING`] first; `None` if none.
    pub fn obstacle(&self) -> Option<&'static str> {
        let State { obstacle, out_of_service, stops, .. } = *self.state.borrow();
        if out_of_service || stops { Some(Self::DRAINING) } else { obstacle }
    }

    /// Sets the reason why new clients should use another server, for the failing route of
    /// [`router`]; `None` if they need not. The server still accepts clients.
    pub fn send_elsewhere(&self, reason: Option<String>) {
        self.state.send_modify(|state| state.elsewhere = reason);
    }

    /// Returns the reason of a failing `/readyz`, or with `of_clients` of `/readyz/clients`.
    fn objection(&self, of_clients: bool) -> Option<String> {
        let elsewhere = || self.state.borrow().elsewhere.clone().filter(|_| of_clients || self.is_for_clients);
        self.obstacle().map(str::to_owned).or_else(elsewhere)
    }
}

/// Returns the health routes. They need no token.
///
/// `/livez` answers 200 while the event loop runs. `/readyz` answers 503 if the server cannot take
/// work, else 200. `/readyz/clients` also answers 503 if new clients should use another server;
/// `/readyz` of a balancer does too. The body of a 503 is the reason.
pub fn router(health: Health) -> Router {
    let of_mesh = health.clone();
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(async move || readiness(of_mesh.objection(false))))
        .route("/readyz/clients", get(async move || readiness(health.objection(true))))
}

/// Returns `/metrics`, in the text format of Prometheus. It needs no token.
pub fn metrics_router() -> Router {
    Router::new().route("/metrics", get(page))
}

/// Returns `POST /drain` and `POST /undrain`, for [`crate::admin::operator_router`]. Unlike at a
/// stop the process stays. Both are idempotent. A stopping server answers `/undrain` with 409.
pub fn drain_routes(health: Health) -> Router {
    let undrained = health.clone();
    Router::new()
        .route("/drain", post(async move || health.set_drained(true)))
        .route("/undrain", post(async move || undrained.set_drained(false)))
}

fn readiness(objection: Option<String>) -> impl IntoResponse + use<> {
    match objection {
        None => (StatusCode::OK, "ready\n".to_owned()),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    }
}

async fn page() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], telemetry::page())
}

#[cfg(test)]
mod tests {
    use ::http::Request;

    use super::*;
    use crate::testing::{self, get as ask};

    #[tokio::test]
    async fn readiness_follows_each_change_with_a_reason() {
        let health = Health::of_node();
        let router = router(health.clone());
        type Step = (&'static str, fn(&Health), u16, &'static str);
        let steps: [Step; 8] = [
            ("at the start", |_| {}, 503, "starting\n"),
            ("ready", |health| health.set_ready(true, ""), 200, "ready\n"),
            ("without a node", |health| health.set_ready(false, "no node in view"), 503, "no node in view\n"),
            ("out of service", |health| drop(health.set_drained(true)), 503, "draining\n"),
            ("ready while out of service", |health| health.set_ready(true, ""), 503, "draining\n"),
            ("ready afterwards", |health| drop(health.set_drained(false)), 200, "ready\n"),
            ("stopping", Health::set_stopping, 503, "draining\n"),
            ("ready while stopping", |health| health.set_ready(true, ""), 503, "draining\n"),
        ];
        for (step, change, status, body) in steps {
            change(&health);
            assert_eq!(ask(&router, "/readyz").await, (status, body.into()), "{step}");
        }
        assert_eq!(ask(&router, "/livez").await, (200, "ok\n".into()), "it lives");
    }

    #[tokio::test]
    async fn stopping_server_cannot_be_undrained() {
        let health = Health::of_node();
        let routes = drain_routes(health.clone());
        health.set_stopping();
        let (status, body) = testing::ask(&routes, Request::post("/undrain")).await;
        assert!(status == 409 && body.contains(r#""code":"stopping""#), "{status} {body}");
        assert_eq!(health.obstacle(), Some("draining"));
    }

    #[tokio::test]
    async fn load_makes_readyz_fail_on_balancers_only() {
        for (health, is_node) in [(Health::of_node(), true), (Health::of_balancer(), false)] {
            let router = router(health.clone());
            health.set_ready(true, "");
            assert_eq!(ask(&router, "/readyz/clients").await, (200, "ready\n".into()));
            health.send_elsewhere(Some("has enough".into()));
            assert_eq!(ask(&router, "/readyz/clients").await, (503, "has enough\n".into()));
            assert_eq!(ask(&router, "/readyz").await.0, if is_node { 200 } else { 503 });
            assert_eq!(health.obstacle(), None, "it could take clients");
            health.set_stopping();
            assert_eq!(ask(&router, "/readyz/clients").await, (503, "draining\n".into()));
        }
    }
}
