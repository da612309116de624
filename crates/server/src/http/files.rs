//! Files that are built into a binary and served to browsers: the dashboard, and pages of the edge.

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

/// Content type of a page.
pub const HTML: &str = "text/html; charset=utf-8";
/// Content type of a style sheet.
pub const CSS: &str = "text/css; charset=utf-8";
/// Content type of a JavaScript module.
pub const SCRIPT: &str = "text/javascript; charset=utf-8";
/// Content type of an SVG drawing.
pub const SVG: &str = "image/svg+xml";

/// A file built into the binary.
#[derive(Debug, Clone, Copy)]
pub struct File {
    /// Path of the file's URL, as a route of the router: it starts with `/`.
    pub path: &'static str,
    /// Value of the `Content-Type` header, such as [`HTML`].
    pub kind: &'static str,
    /// Content, in UTF-8.
    pub text: &'static str,
}

/// Pages that may read a file, by the headers of its answer.
#[derive(Debug, Clone, Copy)]
pub enum Audience {
    /// Pages of any origin: the answer allows it by CORS.
    Anyone,
    /// Pages of the file's origin. The text is the file's `Content-Security-Policy`. A page sends
    /// no referrer.
    ThisOrigin(&'static str),
}

/// Reads files of a folder at compile time into a `&'static [File]`. The folder is relative to the
/// source file of the call. Each file has a path, a kind and its name in the folder:
/// `built_in_files!["../web/": "/" HTML "index.html"]`. A kind is `HTML`, `CSS`, `SCRIPT` or `SVG`.
#[macro_export]
macro_rules! built_in_files {
    ($folder:literal: $($path:literal $kind:ident $file:literal),* $(,)?) => {
        &[$($crate::http::files::File {
            path: $path,
            kind: $crate::http::files::$kind,
            text: include_str!(concat!($folder, $file)),
        }),*]
    };
}

/// Adds a `GET` route per file to a router. Caches must revalidate a file before each use. A
/// request whose `If-None-Match` has the file's `ETag` gets 304.
///
/// # Panics
/// If a path does not start with `/`, or has a `GET` route already.
pub fn serve(router: Router, files: &'static [File], audience: Audience) -> Router {
    files.iter().fold(router, |router, file| {
        let tag = tag(file.text);
        router.route(file.path, get(async move |headers: HeaderMap| answer(file, audience, &tag, &headers)))
    })
}

fn answer(file: &File, audience: Audience, tag: &HeaderValue, request: &HeaderMap) -> Response<Body> {
    let is_known = request.get(IF_NONE_MATCH).is_some_and(|known| lists(known, tag));
    let mut response =
        if is_known { StatusCode::NOT_MODIFIED.into_response() } else { Body::from(file.text).into_response() };
    let headers = response.headers_mut();
    headers.insert(ETAG, tag.clone());
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(file.kind));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    match audience {
        Audience::Anyone => {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        }
        Audience::ThisOrigin(policy) => {
            headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
            headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        }
    }
    response
}

/// Returns `true` if a list of known tags has this tag. A compressing proxy may have made it weak.
fn lists(known: &HeaderValue, tag: &HeaderValue) -> bool {
    let tag = tag.to_str().unwrap_or_default();
    let known = known.to_str().unwrap_or_default();
    known.split(',').any(|one| one.trim().trim_start_matches("W/") == tag)
}

/// Returns the `ETag` of a text: its hash.
fn tag(text: &str) -> HeaderValue {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    // Quotes and hexadecimal digits are valid in a header.
    HeaderValue::from_str(&format!("\"{:016x}\"", hasher.finish())).unwrap_or(HeaderValue::from_static("\"\""))
}
