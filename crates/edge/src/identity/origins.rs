//! Origins of pages that may connect. `connect` and `cors` check requests against them.

use http::{HeaderMap, header};
use url::Url;

/// Error for an origin that no browser sends, with that origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no origin: give https://HOST or https://HOST:PORT in lower case, without a default port, \
     https://*.HOST, SCHEME://HOST of an app, file:// or null"
)]
pub struct BadOrigin(String);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Allowed {
    Exactly(String),
    /// One label between both parts, as in `https://*.preview.example`.
    OneLabel(String, String),
}

impl Allowed {
    fn new(text: &str) -> Result<Self, BadOrigin> {
        let bad = || BadOrigin(text.to_owned());
        let Some((scheme, host)) = text.split_once("://") else {
            return if text == "null" { Ok(Self::Exactly(text.to_owned())) } else { Err(bad()) };
        };
        match host.strip_prefix("*.") {
            // A wildcard below a top-level domain allows all of its pages.
            Some(parent) if is_web_origin(&format!("{scheme}://x.{parent}")) && parent.contains('.') => {
                Ok(Self::OneLabel(format!("{scheme}://"), format!(".{parent}")))
            }
            None if is_web_origin(text) || is_app_origin(scheme, host) => Ok(Self::Exactly(text.to_owned())),
            _ => Err(bad()),
        }
    }

    fn fits(&self, origin: &[u8]) -> bool {
        match self {
            Self::Exactly(allowed) => allowed.as_bytes() == origin,
            Self::OneLabel(before, after) => {
                let label = origin.strip_prefix(before.as_bytes()).and_then(|it| it.strip_suffix(after.as_bytes()));
                label.is_some_and(|label| !label.is_empty() && label.iter().all(|byte| is_of_label(*byte)))
            }
        }
    }
}

fn is_of_label(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte)
}

/// Returns `true` if a browser would send the text as the origin of a page (RFC 6454).
fn is_web_origin(text: &str) -> bool {
    let is_origin = |url: Url| {
        matches!(url.scheme(), "http" | "https") && !text.contains('*') && url.origin().ascii_serialization() == text
    };
    Url::parse(text).is_ok_and(is_origin)
}

/// Returns `true` for a web view, an extension or a local file.
fn is_app_origin(scheme: &str, host: &str) -> bool {
    let is_of_scheme = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte);
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_lowercase()) && scheme.bytes().all(is_of_scheme);
    let is_host = !host.is_empty() && host.bytes().all(|byte| is_of_label(byte) || byte == b'.');
    match scheme {
        "file" => host.is_empty(),
        "http" | "https" | "ws" | "wss" | "ftp" => false,
        _ => is_scheme && is_host,
    }
}

/// Origins that may connect; an empty list, the default, allows all. A request without an origin
/// passes, since it comes from no browser.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origins(Vec<Allowed>);

impl Origins {
    /// Allows only these origins, or all if the list is empty.
    ///
    /// # Errors
    /// If an origin is not `http://HOST[:PORT]`, `https://HOST[:PORT]`, `SCHEME://HOST` of an app,
    /// `file://` or `null` as a browser sends it: in lower case, without a default port or path. No
    /// request could match it. A web origin's first label may be `*` if two labels follow.
    pub fn new(allowed: &[String]) -> Result<Self, BadOrigin> {
        Ok(Self(allowed.iter().map(|origin| Allowed::new(origin)).collect::<Result<_, _>>()?))
    }

    /// Returns `true` if all origins are allowed, or the request has no `Origin`, or exactly one
    /// that equals an allowed one byte by byte, except for its first label if that may be any.
    #[must_use]
    pub fn admit(&self, headers: &HeaderMap) -> bool {
        let mut named = headers.get_all(header::ORIGIN).iter();
        match (named.next(), named.next()) {
            _ if self.0.is_empty() => true,
            (None, _) => true,
            (Some(origin), None) => self.0.iter().any(|allowed| allowed.fits(origin.as_bytes())),
            (Some(_), Some(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn origin_matches_byte_by_byte() {
        let listed = "https://app.example http://localhost:3000 https://*.preview.example https://*.dev.example:8443 \
            capacitor://localhost";
        let listed: Vec<String> = listed.split_ascii_whitespace().map(str::to_owned).collect();
        let origins = Origins::new(&listed).unwrap();
        for (origin, is_allowed) in [
            ("https://pr-7.preview.example", true),
            ("https://pr-7.dev.example:8443", true),
            ("capacitor://localhost", true),
            ("https://preview.example", false),
            ("https://.preview.example", false),
            ("https://a.b.preview.example", false),
            ("https://evil.example/.preview.example", false),
            ("https://evil.example:1.preview.example", false),
            ("https://a.preview.example.evil.example", false),
            ("https://a.preview.example:8443", false),
            ("http://a.preview.example", false),
            ("ionic://localhost", false),
            ("null", false),
            ("file://", false),
            ("https://app.example", true),
            ("http://localhost:3000", true),
            ("https://APP.example", false),
            ("https://app.example:443", false),
            ("https://app.example/", false),
            ("http://localhost", false),
            ("", false),
        ] {
            let headers = [(header::ORIGIN, HeaderValue::from_static(origin))].into_iter().collect();
            assert_eq!(origins.admit(&headers), is_allowed, "{origin}");
            assert!(Origins::default().admit(&headers), "all are allowed without a list");
        }
    }

    #[test]
    fn origin_that_no_browser_sends_is_rejected() {
        for bad in [
            "app.example",
            "https://app.example/",
            "https://app.example/page",
            "https://App.example",
            "https://app.example:443",
            "http://app.example:80",
            "https://*.example",
            "https://*",
            "https://a.*.app.example",
            "https://*.*.app.example",
            "https://*x.app.example",
            "https://*.10.0.0.1",
            "https://*.App.example",
            "capacitor://*.app.example",
            "capacitor://localhost/",
            "capacitor://localhost:80",
            "Capacitor://localhost",
            "capacitor://",
            "7app://localhost",
            "https://me@app.example",
            "ws://app.example",
            "file:///home",
            "https://",
            "://",
            "Null",
            "*",
            "",
        ] {
            assert!(Origins::new(&[bad.to_owned()]).is_err(), "{bad}");
        }
        for good in [
            "https://app.example",
            "http://127.0.0.1:8080",
            "http://[::1]:3000",
            "https://*.preview.example",
            "capacitor://localhost",
            "ionic://localhost",
            "tauri://localhost",
            "chrome-extension://abcdefghijklmnopabcdefghijklmnop",
            "moz-extension://5b3e9c2e-8a4f-4f0e-9d0c-1d2f3a4b5c6d",
            "file://",
            "null",
        ] {
            let origins = Origins::new(&[good.to_owned()]).unwrap();
            let sent = [(header::ORIGIN, HeaderValue::from_str(&good.replace('*', "a")).unwrap())];
            assert!(origins.admit(&sent.into_iter().collect()), "{good}");
        }
    }
}
