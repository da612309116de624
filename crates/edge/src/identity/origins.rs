//! Origins of pages that may connect. `connect` and `cors` check requests against them.

use http::{HeaderMap, header};
use url::Url;

/// Error for an origin that no browser sends, with that origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no web origin: give https://HOST or https://HOST:PORT in lower case, without a default port")]
pub struct BadOrigin(String);

/// Returns the text if a browser would send it as an origin (RFC 6454).
fn checked(text: &str) -> Result<String, BadOrigin> {
    let is_origin = |url: Url| {
        matches!(url.scheme(), "http" | "https") && !text.contains('*') && url.origin().ascii_serialization() == text
    };
    if Url::parse(text).is_ok_and(is_origin) { Ok(text.to_owned()) } else { Err(BadOrigin(text.to_owned())) }
}

/// Origins that may connect; an empty list, the default, allows all. A request without an origin
/// passes, since it comes from no browser.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origins(Vec<String>);

impl Origins {
    /// Allows only these origins, or all if the list is empty.
    ///
    /// # Errors
    /// If an origin is not `http://HOST[:PORT]` or `https://HOST[:PORT]` as a browser sends it: in
    /// lower case, without a default port or path. No request could match it.
    pub fn new(allowed: &[String]) -> Result<Self, BadOrigin> {
        Ok(Self(allowed.iter().map(|origin| checked(origin)).collect::<Result<_, _>>()?))
    }

    /// Returns `true` if all origins are allowed, or the request has no `Origin`, or exactly one
    /// that equals an allowed one byte by byte.
    #[must_use]
    pub fn admit(&self, headers: &HeaderMap) -> bool {
        let mut named = headers.get_all(header::ORIGIN).iter();
        match (named.next(), named.next()) {
            _ if self.0.is_empty() => true,
            (None, _) => true,
            (Some(origin), None) => self.0.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes()),
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
        let listed = ["https://app.example".to_owned(), "http://localhost:3000".to_owned()];
        let origins = Origins::new(&listed).unwrap();
        for (origin, is_allowed) in [
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
            "https://me@app.example",
            "ws://app.example",
            "https://",
            "null",
            "*",
            "",
        ] {
            assert!(Origins::new(&[bad.to_owned()]).is_err(), "{bad}");
        }
        for good in ["https://app.example", "http://127.0.0.1:8080", "http://[::1]:3000"] {
            assert!(Origins::new(&[good.to_owned()]).is_ok(), "{good}");
        }
    }
}
