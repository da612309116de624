//! The guarded routes under `/admin`.

use ::http::StatusCode;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;

use crate::Secret;
use crate::auth::authorized;
use crate::http::{not_found, refusal};

/// Puts a router's routes under `/admin`. With a token, each request there must show it as `Authorization: Bearer`;
/// one that does not is answered 401, whether the route exists or not.
pub fn guarded(router: Router, token: Option<Secret>) -> Router {
    let mut router = router.fallback(not_found);
    if let Some(token) = token {
        router = router.layer(from_fn_with_state(token, check));
    }
    Router::new().nest("/admin", router)
}

async fn check(State(token): State<Secret>, request: Request, next: Next) -> Response {
    if authorized(request.headers(), &token) {
        next.run(request).await
    } else {
        refusal(StatusCode::UNAUTHORIZED, "unauthorized", "send the admin token as Authorization: Bearer", None)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ::http::header::AUTHORIZATION;
    use axum::body::{Body, to_bytes};
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    #[tokio::test]
    async fn without_a_token_set_everyone_may_ask() {
        let router = guarded(routes(), None);
        assert_eq!(ask(&router, "/admin/view", None).await, (200, "a view".into()));
    }

    #[tokio::test]
    async fn with_a_token_set_only_who_shows_it_may_ask() {
        let router = guarded(routes(), Some(Secret::new(TOKEN).unwrap()));
        assert_eq!(ask(&router, "/admin/view", Some(TOKEN)).await, (200, "a view".into()));
        for wrong in [None, Some("0123456789abcdeF")] {
            let (status, body) = ask(&router, "/admin/view", wrong).await;
            assert_eq!(status, 401);
            assert!(body.starts_with(r#"{"error":{"code":"unauthorized","message":"#), "{body}");
        }
    }

    #[tokio::test]
    async fn which_routes_exist_is_told_only_to_who_shows_the_token() {
        let router = guarded(routes(), Some(Secret::new(TOKEN).unwrap()));
        assert_eq!(ask(&router, "/admin/other", None).await.0, 401);
        assert_eq!(ask(&router, "/admin/other", Some(TOKEN)).await.0, 404);
    }

    fn routes() -> Router {
        Router::new().route("/view", get(async || "a view"))
    }

    async fn ask(router: &Router, path: &str, token: Option<&str>) -> (u16, String) {
        let mut request = Request::get(path);
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }
}
