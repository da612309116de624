//! Routers under `/admin` for operators and under [`BETWEEN_SERVERS`] for servers, with their
//! guards. The `run` modules of both servers mount them on the internal listener.

pub mod handlers;

use ::http::StatusCode;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;

use crate::AdminToken;
use crate::auth::{bearer_token, require_proof};
use crate::http::{not_found, refusal};
use crate::metrics::{InternalRefusal, METRICS};
use crate::proofs::Proofs;

/// Path prefix of the routes for other servers of the mesh.
pub const BETWEEN_SERVERS: &str = "/internal/v1/admin";

/// Serves routes for operators under `/admin`. Answers 401 to a request without the token as
/// `Authorization: Bearer`, and to every request if there is no token. Then answers 404 for an
/// unknown route, and 405 for another method.
pub fn operator_router(routes: Router, token: Option<AdminToken>) -> Router {
    Router::new().nest("/admin", with_fallbacks(routes).layer(from_fn_with_state(token, require_token)))
}

/// Serves routes for other servers under [`BETWEEN_SERVERS`]. Answers 401 to a request without a
/// proof of the mesh secret, then 404 for an unknown route, and 405 for another method.
pub fn server_router(routes: Router, proofs: Proofs) -> Router {
    let guard = from_fn_with_state(proofs, require_proof);
    Router::new().nest(BETWEEN_SERVERS, with_fallbacks(routes).layer(guard))
}

fn with_fallbacks(routes: Router) -> Router {
    routes.fallback(not_found).method_not_allowed_fallback(other_method)
}

async fn require_token(State(token): State<Option<AdminToken>>, request: Request, next: Next) -> Response {
    let message = match (token, bearer_token(request.headers())) {
        (Some(token), Some(sent)) if token.matches(sent) => return next.run(request).await,
        (None, _) => "this server has no --admin-token-file, so it refuses all of /admin",
        (Some(_), None) => "send the token of --admin-token-file as Authorization: Bearer",
        (Some(_), Some(_)) => "this is not the token of --admin-token-file",
    };
    METRICS.internal_refusals.of(InternalRefusal::AdminToken).inc();
    refusal(StatusCode::UNAUTHORIZED, "unauthorized", message, None)
}

async fn other_method() -> Response {
    let message = "this path has other methods, see the header Allow";
    refusal(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message, None)
}

#[cfg(test)]
mod tests {
    use ::http::header::AUTHORIZATION;
    use axum::body::Body;
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    async fn request(token: Option<&str>, method: &str, sent: Option<&str>) -> Response {
        let routes = Router::new().route("/view", get(async || "a view"));
        let router = operator_router(routes, token.map(|token| AdminToken::new(token).unwrap()));
        let request = Request::builder().method(method).uri("/admin/view");
        let request =
            sent.iter().fold(request, |request, sent| request.header(AUTHORIZATION, format!("Bearer {sent}")));
        router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn refusal_tells_a_wrong_token_from_a_missing_one() {
        for (token, sent, why) in [
            (Some("another-token-of-ours"), Some(TOKEN), "this is not the token"),
            (Some(TOKEN), None, "send the token"),
            (None, Some(TOKEN), "this server has no --admin-token-file"),
        ] {
            let response = request(token, "GET", sent).await;
            assert_eq!(response.status(), 401);
            let body = axum::body::to_bytes(response.into_body(), 1_024).await.unwrap();
            assert!(String::from_utf8_lossy(&body).contains(why), "{body:?}");
        }
    }

    #[tokio::test]
    async fn right_token_is_accepted() {
        assert_eq!(request(Some(TOKEN), "GET", Some(TOKEN)).await.status(), 200);
    }

    #[tokio::test]
    async fn wrong_method_is_refused_with_the_allowed_ones() {
        let response = request(Some(TOKEN), "POST", Some(TOKEN)).await;
        assert_eq!((response.status().as_u16(), &response.headers()["allow"]), (405, &"GET,HEAD".parse().unwrap()));
    }
}
