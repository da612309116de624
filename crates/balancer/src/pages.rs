//! Content of the public listener besides client sockets, built into the binary: the browser SDK
//! and the demo page.

use axum::Router;
use signaling_server::built_in_files;
use signaling_server::http::files::{self, Audience, File};
use signaling_server::http::not_found;

/// Content security policy: only this origin, no inline scripts.
const POLICY: &str =
    "default-src 'self'; connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Modules that pages of any origin may load.
const SDK: &[File] = built_in_files!["../../client/web/":
    "/client.js" SCRIPT "client.js",
    "/peer.js" SCRIPT "peer.js",
    "/room.js" SCRIPT "room.js",
];

const DEMO: &[File] = built_in_files!["../web/":
    "/" HTML "index.html",
    "/style.css" CSS "style.css",
    "/icon.svg" SVG "icon.svg",
    "/app.js" SCRIPT "app.js",
    "/camera.js" SCRIPT "camera.js",
    "/explain.js" SCRIPT "explain.js",
    "/identity.js" SCRIPT "identity.js",
    "/mesh.js" SCRIPT "mesh.js",
    "/pattern.js" SCRIPT "pattern.js",
    "/tiles.js" SCRIPT "tiles.js",
    "/view.js" SCRIPT "view.js",
];

/// Returns routes to the SDK's modules, and to the demo page if `demo` is set.
pub(crate) fn router(demo: bool) -> Router {
    let pages = if demo { DEMO } else { &[] };
    let router = files::serve(Router::new(), SDK, Audience::Anyone);
    files::serve(router, pages, Audience::ThisOrigin(POLICY)).fallback(not_found)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;

    use axum::body::{Body, to_bytes};
    use axum::response::Response;
    use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
    use http::{HeaderValue, Request};
    use signaling_server::http::files::SCRIPT;
    use tower::ServiceExt as _;

    use super::*;

    async fn ask(demo: bool, path: &str, known: Option<&HeaderValue>) -> Response<Body> {
        let mut request = Request::get(path).body(Body::empty()).unwrap();
        if let Some(known) = known {
            request.headers_mut().insert(IF_NONE_MATCH, known.clone());
        }
        router(demo).oneshot(request).await.unwrap()
    }

    #[test]
    fn each_file_of_the_page_is_served() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let path = if name == "index.html" { "/".to_owned() } else { format!("/{name}") };
            assert!(DEMO.iter().any(|file| file.path == path), "{path} is not served");
        }
    }

    #[tokio::test]
    async fn sdk_is_served_to_pages_of_any_origin() {
        for demo in [false, true] {
            for path in ["/client.js", "/peer.js", "/room.js"] {
                let response = ask(demo, path, None).await;
                assert_eq!(response.status(), 200);
                assert_eq!(response.headers()[CONTENT_TYPE], SCRIPT);
                assert_eq!(response.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], "*");
                assert!(!to_bytes(response.into_body(), 1 << 20).await.unwrap().is_empty());
            }
            let page = ask(demo, "/", None).await;
            assert_eq!(page.status(), if demo { 200 } else { 404 });
            assert!(!page.headers().contains_key(ACCESS_CONTROL_ALLOW_ORIGIN));
        }
    }

    #[tokio::test]
    async fn known_file_is_answered_304() {
        let first = ask(false, "/client.js", None).await;
        assert_eq!(first.headers()[CACHE_CONTROL], "no-cache");
        let tag = first.headers()[ETAG].clone();
        let weak = HeaderValue::from_str(&format!("\"other\", W/{}", tag.to_str().unwrap())).unwrap();
        for known in [&tag, &weak] {
            let again = ask(false, "/client.js", Some(known)).await;
            assert_eq!((again.status().as_u16(), &again.headers()[ETAG]), (304, &tag));
            assert!(to_bytes(again.into_body(), 1).await.unwrap().is_empty());
        }
        let other = ask(false, "/peer.js", Some(&tag)).await;
        assert_eq!(other.status(), 200);
    }
}
