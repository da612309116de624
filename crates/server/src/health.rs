//! `/livez`, `/readyz`, `/readyz/clients`, `/metrics`.

use ::http::StatusCode;
use ::http::header::CONTENT_TYPE;
use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::sync::watch;

use crate::{metrics, telemetry};

/// Whether this server can take work. A cheap clone shares it; it starts as not ready.
#[derive(Clone)]
pub struct Health {
    state: watch::Sender<State>,
    is_for_clients: bool,
}

#[derive(Debug)]
struct State {
    /// Why work cannot be taken, if so.
    obstacle: Option<&'static str>,
    /// An operator has taken the server out of service.
    out_of_service: bool,
    /// It will stop.
    stops: bool,
    /// Why new clients should go to another server.
    elsewhere: Option<String>,
}

impl Health {
    /// What a server says that was taken out of service, or will stop.
    pub const DRAINING: &str = "draining";

    /// Not ready: `starting`. Ready means that the mesh can rely on it.
    #[must_use]
    pub fn new() -> Self {
        let state = State { obstacle: Some("starting"), out_of_service: false, stops: false, elsewhere: None };
        let health = Self { state: watch::Sender::new(state), is_for_clients: false };
        health.publish();
        health
    }

    /// The same of a server on which only clients rely: ready means that new ones may come.
    #[must_use]
    pub fn for_clients() -> Self {
        Self { is_for_clients: true, ..Self::new() }
    }

    /// Says whether the server could take work, and if not, why.
    pub fn set_ready(&self, ready: bool, reason: &'static str) {
        let obstacle = if ready { None } else { Some(reason) };
        self.change(|state| state.obstacle = obstacle);
    }

    /// Says whether an operator has taken the server out of service: it is then not ready, whatever else is said.
    pub fn set_out_of_service(&self, out_of_service: bool) {
        self.change(|state| state.out_of_service = out_of_service);
    }

    /// The server drains, for good.
    pub fn draining(&self) {
        self.change(|state| state.stops = true);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        self.state.send_modify(change);
        self.publish();
    }

    fn publish(&self) {
        let obstacle = self.obstacle();
        metrics::health(obstacle.is_none(), obstacle == Some(Self::DRAINING));
    }

    /// Nothing if the server can take work, else why not.
    #[must_use]
    pub fn obstacle(&self) -> Option<&'static str> {
        let State { obstacle, out_of_service, stops, .. } = *self.state.borrow();
        if out_of_service || stops { Some(Self::DRAINING) } else { obstacle }
    }

    /// Says why new clients had better go to another server, if so, though this one could take them.
    pub fn send_elsewhere(&self, reason: Option<String>) {
        self.state.send_modify(|state| state.elsewhere = reason);
    }

    /// What `/readyz` says against this server, or for clients `/readyz/clients`.
    fn objection(&self, of_clients: bool) -> Option<String> {
        let elsewhere = || self.state.borrow().elsewhere.clone().filter(|_| of_clients || self.is_for_clients);
        self.obstacle().map(str::to_owned).or_else(elsewhere)
    }
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

/// `/livez` answers as long as the event loop turns, `/readyz` whether work can be taken, `/readyz/clients` whether new clients
/// should come, `/metrics` with the metrics.
pub fn router(health: Health) -> Router {
    let of_mesh = health.clone();
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(async move || readiness(of_mesh.objection(false))))
        .route("/readyz/clients", get(async move || readiness(health.objection(true))))
        .route("/metrics", get(page))
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
    use super::*;
    use crate::testing::get as ask;

    #[tokio::test]
    async fn readiness_follows_the_state_and_says_why_not() {
        let health = Health::new();
        let router = router(health.clone());
        assert_eq!(ask(&router, "/readyz").await, (503, "starting\n".into()));
        health.set_ready(true, "");
        assert_eq!(ask(&router, "/readyz").await, (200, "ready\n".into()));
        health.set_ready(false, "no node in view");
        assert_eq!(ask(&router, "/readyz").await, (503, "no node in view\n".into()));
    }

    #[tokio::test]
    async fn a_draining_server_never_becomes_ready_again_but_lives() {
        let health = Health::new();
        let router = router(health.clone());
        health.draining();
        health.set_ready(true, "");
        assert_eq!(ask(&router, "/readyz").await, (503, "draining\n".into()));
        assert_eq!(ask(&router, "/livez").await, (200, "ok\n".into()));
    }

    #[test]
    fn who_was_out_of_service_is_as_ready_afterwards_as_it_became_meanwhile() {
        let health = Health::new();
        health.set_ready(true, "");
        health.set_out_of_service(true);
        assert_eq!(health.obstacle(), Some("draining"));
        health.set_ready(false, "no node in view");
        assert_eq!(health.obstacle(), Some("draining"));
        health.set_out_of_service(false);
        assert_eq!(health.obstacle(), Some("no node in view"));
    }

    #[tokio::test]
    async fn who_sends_clients_elsewhere_is_not_ready_for_them_and_only_where_nobody_else_relies_on_it_not_at_all() {
        for (health, relied_on) in [(Health::new(), true), (Health::for_clients(), false)] {
            let router = router(health.clone());
            health.set_ready(true, "");
            assert_eq!(ask(&router, "/readyz/clients").await, (200, "ready\n".into()));
            health.send_elsewhere(Some("has enough".into()));
            assert_eq!(ask(&router, "/readyz/clients").await, (503, "has enough\n".into()));
            assert_eq!(ask(&router, "/readyz").await.0, if relied_on { 200 } else { 503 });
            assert_eq!(health.obstacle(), None, "it could take clients");
            health.draining();
            assert_eq!(ask(&router, "/readyz/clients").await, (503, "draining\n".into()));
        }
    }

    #[tokio::test]
    async fn metrics_are_served() {
        let (status, page) = ask(&router(Health::new()), "/metrics").await;
        assert_eq!(status, 200);
        assert!(page.contains("process_cpu_seconds_total"), "{page}");
    }
}
