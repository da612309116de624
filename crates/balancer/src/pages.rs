//! The demo page, built into the binary.

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use signaling_server::http::not_found;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
/// Nothing from elsewhere, no inline script.
const POLICY: &str =
    "default-src 'self'; connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

macro_rules! pages {
    ($($path:literal $kind:ident $file:literal),* $(,)?) => {
        &[$(($path, $kind, include_str!(concat!("../web/", $file)))),*]
    };
}

const PAGES: &[(&str, &str, &str)] = pages![
    "/" HTML "index.html",
    "/style.css" CSS "style.css",
    "/icon.svg" SVG "icon.svg",
    "/app.js" SCRIPT "app.js",
    "/calls.js" SCRIPT "calls.js",
    "/explain.js" SCRIPT "explain.js",
    "/identity.js" SCRIPT "identity.js",
    "/path.js" SCRIPT "path.js",
    "/peer.js" SCRIPT "peer.js",
    "/reconnect.js" SCRIPT "reconnect.js",
    "/signaling.js" SCRIPT "signaling.js",
    "/view.js" SCRIPT "view.js",
];

/// What the public listener serves beside client sockets.
pub(crate) fn router(demo: bool) -> Router {
    let pages = if demo { PAGES } else { &[] };
    let routed = pages
        .iter()
        .fold(Router::new(), |router, &(path, kind, text)| router.route(path, get(async move || page(kind, text))));
    routed.fallback(not_found)
}

fn page(kind: &'static str, text: &'static str) -> impl IntoResponse {
    let headers = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_the_page_is_served() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let path = if name == "index.html" { "/".to_owned() } else { format!("/{name}") };
            assert!(PAGES.iter().any(|(served, ..)| *served == path), "{path} is not served");
        }
    }
}
