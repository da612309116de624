//! Routes under `/admin` for operators and under [`BETWEEN_SERVERS`] for servers, with their
//! guards. The `run` modules of both servers mount them on the internal listener. Without an admin
//! token `/admin` refuses requests of foreign web pages (`foreign`).

mod foreign;
pub mod handlers;

use ::http::StatusCode;
use axum::Router;
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{MethodFilter, on};

use crate::auth::{authorized, require_mesh_secret};
use crate::http::{not_found, refusal};
use crate::metrics::{InternalRefusal, METRICS};
use crate::{Secret, Secrets};

pub use self::foreign::OwnHosts;

const PREFIX: &str = "/admin";
/// Path prefix of the routes for other servers of the mesh.
pub const BETWEEN_SERVERS: &str = "/internal/v1/admin";

/// HTTP method of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `GET`: reads.
    Get,
    /// `POST`: performs an action.
    Post,
    /// `PUT`: changes a setting.
    Put,
    /// `DELETE`: removes a setting.
    Delete,
}

/// Routes with handlers of state `S`, and their list, which tests compare with the documentation.
#[derive(Clone)]
pub struct Routes<S = ()> {
    router: Router<S>,
    list: Vec<(Method, String)>,
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self { router: Router::new(), list: Vec::new() }
    }

    /// Adds a route. `path` has no prefix. Panics if the route exists or `path` lacks a first `/`.
    #[must_use]
    pub fn with<H: Handler<T, S>, T: 'static>(mut self, method: Method, path: &str, handler: H) -> Self {
        let filter = match method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Put => MethodFilter::PUT,
            Method::Delete => MethodFilter::DELETE,
        };
        self.router = self.router.route(path, on(filter, handler));
        self.list.push((method, path.to_owned()));
        self
    }

    /// Sets the state of the handlers.
    #[must_use]
    pub fn with_state(self, state: S) -> Routes {
        Routes { router: self.router.with_state(state), list: self.list }
    }

    /// Adds the routes of another set. Panics if both have the same one.
    #[must_use]
    pub fn merge(mut self, others: Self) -> Self {
        self.router = self.router.merge(others.router);
        self.list.extend(others.list);
        self
    }

    /// Returns the routes without guard and prefix.
    #[cfg(test)]
    pub(crate) fn bare(self) -> Router<S> {
        self.router
    }

    /// Returns all routes, sorted, as upper-case method and path, always with the prefix `/admin`.
    #[must_use]
    pub fn list(&self) -> Vec<(String, String)> {
        let words =
            |(method, path): &(Method, String)| (format!("{method:?}").to_uppercase(), format!("{PREFIX}{path}"));
        let mut list: Vec<_> = self.list.iter().map(words).collect();
        list.sort();
        list
    }
}

impl<S: Clone + Send + Sync + 'static> Default for Routes<S> {
    fn default() -> Self {
        Self::new()
    }
}

/// Serves routes for operators under `/admin`. With a token, answers 401 to a request without it as
/// `Authorization: Bearer`, also for an unknown route. Without a token, answers 403 to a request of
/// a foreign web page or to a host outside `hosts`. Then answers 404 for an unknown route, and 405
/// for another method.
pub fn operator_router(routes: Routes, token: Option<Secret>, hosts: OwnHosts) -> Router {
    let router = with_fallbacks(routes);
    let router = match token {
        Some(token) => router.layer(from_fn_with_state(token, check)),
        None => router.layer(from_fn_with_state(hosts, refuse_foreign)),
    };
    Router::new().nest(PREFIX, router)
}

/// Serves routes for other servers under [`BETWEEN_SERVERS`]. Answers 401 to a request without the
/// mesh secret, then 404 for an unknown route, and 405 for another method.
pub fn server_router(routes: Routes, secrets: Secrets) -> Router {
    let guard = from_fn_with_state(secrets, require_mesh_secret);
    Router::new().nest(BETWEEN_SERVERS, with_fallbacks(routes).layer(guard))
}

fn with_fallbacks(routes: Routes) -> Router {
    routes.router.fallback(not_found).method_not_allowed_fallback(other_method)
}

async fn check(State(token): State<Secret>, request: Request, next: Next) -> Response {
    if authorized(request.headers(), &token) {
        next.run(request).await
    } else {
        METRICS.internal_refusals.of(InternalRefusal::AdminToken).inc();
        refusal(StatusCode::UNAUTHORIZED, "unauthorized", "send the admin token as Authorization: Bearer", None)
    }
}

async fn refuse_foreign(State(hosts): State<OwnHosts>, request: Request, next: Next) -> Response {
    match hosts.check(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(foreign) => {
            METRICS.internal_refusals.of(InternalRefusal::ForeignPage).inc();
            refusal(StatusCode::FORBIDDEN, "foreign_page", &foreign.to_string(), None)
        }
    }
}

async fn other_method() -> Response {
    let message = "this path has other methods, see the header Allow";
    refusal(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message, None)
}

#[cfg(test)]
mod tests {
    use ::http::header::AUTHORIZATION;
    use axum::body::Body;
    use tower::ServiceExt;

    use super::*;
    use crate::testing::get;

    const TOKEN: &str = "0123456789abcdef";

    #[tokio::test]
    async fn foreign_pages_are_refused_when_no_token_is_set() {
        for (name, value) in [("origin", "https://evil.example"), ("host", "evil.example")] {
            let request = || Request::get("/admin/view").header(name, value);
            let open = operator_router(routes(), None, hosts());
            let response = open.oneshot(request().body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(response.status(), 403, "{name}");
            // A foreign page cannot have the token.
            let shown = request().header(AUTHORIZATION, format!("Bearer {TOKEN}")).body(Body::empty()).unwrap();
            let closed = operator_router(routes(), Some(Secret::new(TOKEN).unwrap()), hosts());
            assert_eq!(closed.oneshot(shown).await.unwrap().status(), 200, "{name}");
        }
    }

    #[tokio::test]
    async fn wrong_method_is_refused_with_the_allowed_ones() {
        let router = operator_router(routes(), None, hosts());
        assert_eq!(get(&router, "/admin/view").await, (200, "a view".into()));
        let request = Request::post("/admin/view").body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        assert_eq!((response.status().as_u16(), &response.headers()["allow"]), (405, &"GET,HEAD".parse().unwrap()));
    }

    #[test]
    fn routes_list_themselves_sorted() {
        let more = Routes::new().with(Method::Post, "/drain", async || "drains");
        let word = |method: &str, path: &str| (method.to_owned(), path.to_owned());
        assert_eq!(routes().merge(more).list(), [word("GET", "/admin/view"), word("POST", "/admin/drain")]);
    }

    fn hosts() -> OwnHosts {
        OwnHosts::new("127.0.0.1:7900".parse().unwrap(), [])
    }

    fn routes() -> Routes {
        Routes::new().with(Method::Get, "/view", async || "a view")
    }
}
