//! What the public listener serves beside client sockets, built into the binary: the browser SDK, and the demo page.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use signaling_server::http::not_found;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
/// Nothing from elsewhere, no inline script.
const POLICY: &str =
    "default-src 'self'; connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A path, what it is, and the text.
type Page = (&'static str, &'static str, &'static str);

macro_rules! pages {
    ($folder:literal: $($path:literal $kind:ident $file:literal),* $(,)?) => {
        &[$(($path, $kind, include_str!(concat!($folder, $file)))),*]
    };
}

/// For pages of any origin.
const SDK: &[Page] = pages!["../../client/web/":
    "/client.js" SCRIPT "client.js",
    "/peer.js" SCRIPT "peer.js",
    "/room.js" SCRIPT "room.js",
];

const DEMO: &[Page] = pages!["../web/":
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

/// The SDK's modules, and with `demo` the page.
pub(crate) fn router(demo: bool) -> Router {
    let pages = SDK.iter().chain(if demo { DEMO } else { &[] });
    let routed = pages.fold(Router::new(), |router, page| {
        let (path, tag) = (page.0, tag(page.2));
        router.route(path, get(async move |headers: HeaderMap| answer(page, &tag, &headers)))
    });
    routed.fallback(not_found)
}

/// Asked for again each time, and sent again only where it has changed.
fn answer((path, kind, text): &Page, tag: &HeaderValue, asked: &HeaderMap) -> Response<Body> {
    let is_known = asked.get(IF_NONE_MATCH).is_some_and(|known| lists(known, tag));
    let mut response =
        if is_known { StatusCode::NOT_MODIFIED.into_response() } else { Body::from(*text).into_response() };
    let headers = response.headers_mut();
    headers.insert(ETAG, tag.clone());
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if SDK.iter().any(|(of_sdk, ..)| of_sdk == path) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    } else {
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    }
    response
}

/// A proxy that compresses may have weakened it.
fn lists(known: &HeaderValue, tag: &HeaderValue) -> bool {
    let tag = tag.to_str().unwrap_or_default();
    let known = known.to_str().unwrap_or_default();
    known.split(',').any(|one| one.trim().trim_start_matches("W/") == tag)
}

fn tag(text: &str) -> HeaderValue {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    // Quotes and hexadecimal digits are always a header's value.
    HeaderValue::from_str(&format!("\"{:016x}\"", hasher.finish())).unwrap_or(HeaderValue::from_static("\"\""))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;

    use axum::body::to_bytes;
    use http::Request;
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
    fn every_file_of_the_page_is_served() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let path = if name == "index.html" { "/".to_owned() } else { format!("/{name}") };
            assert!(DEMO.iter().any(|(served, ..)| *served == path), "{path} is not served");
        }
    }

    #[tokio::test]
    async fn the_sdk_is_served_with_and_without_the_page_and_to_pages_of_any_origin() {
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
    async fn who_has_a_file_already_is_told_so() {
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
