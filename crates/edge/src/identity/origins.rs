//! Origins of pages that may connect.

use std::str::FromStr;

use http::{HeaderMap, Uri, header};

/// Error of a malformed origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an origin as browsers send it: https://HOST, or with :PORT where that is not the scheme's own, in lower case, nothing behind"
)]
pub struct BadOrigin(String);

/// One origin (RFC 6454) in the form of browsers: scheme, host, and the port unless it is the
/// scheme's default.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Origin(String);

impl FromStr for Origin {
    type Err = BadOrigin;

    fn from_str(text: &str) -> Result<Self, BadOrigin> {
        let bad = || BadOrigin(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| bad())?;
        let authority = uri.authority().ok_or_else(bad)?;
        let own_port = match uri.scheme_str() {
            Some("https") => 443,
            Some("http") => 80,
            _ => return Err(bad()),
        };
        let is_plain = text.bytes().all(|byte| !byte.is_ascii_uppercase() && byte != b'@' && byte != b'*');
        let is_whole =
            text.strip_prefix(uri.scheme_str().unwrap_or_default()).and_then(|rest| rest.strip_prefix("://"))
                == Some(authority.as_str());
        if is_plain && is_whole && !authority.host().is_empty() && authority.port_u16() != Some(own_port) {
            Ok(Self(text.to_owned()))
        } else {
            Err(bad())
        }
    }
}

/// Origins that may connect. Requests without an origin come from no browser and are allowed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origins {
    /// `None` allows all origins.
    allowed: Option<Vec<Origin>>,
}

impl Origins {
    /// Allows only these origins, or all if the list is empty.
    ///
    /// # Errors
    /// If a browser would never send one of them, so that it could not match.
    pub fn new(allowed: &[String]) -> Result<Self, BadOrigin> {
        if allowed.is_empty() {
            return Ok(Self::default());
        }
        Ok(Self { allowed: Some(allowed.iter().map(|origin| origin.parse()).collect::<Result<_, _>>()?) })
    }

    /// Returns `true` if the request has no `Origin`, or exactly one that equals an allowed one.
    ///
    /// If all origins are allowed, every request is.
    #[must_use]
    pub fn admit(&self, headers: &HeaderMap) -> bool {
        let mut named = headers.get_all(header::ORIGIN).iter();
        match (&self.allowed, named.next(), named.next()) {
            (None, ..) | (_, None, _) => true,
            (Some(allowed), Some(origin), None) => allowed.iter().any(|one| one.0.as_bytes() == origin.as_bytes()),
            (Some(_), Some(_), Some(_)) => false,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(origins: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for origin in origins {
            headers.append(header::ORIGIN, HeaderValue::from_static(origin));
        }
        headers
    }

    #[test]
    fn an_origin_matches_letter_by_letter_or_not_at_all() {
        let listed = ["https://app.example".to_owned(), "http://localhost:3000".to_owned()];
        let origins = Origins::new(&listed).unwrap();
        for (origin, whether) in [
            ("https://app.example", true),
            ("http://localhost:3000", true),
            ("https://APP.example", false),
            ("http://app.example", false),
            ("https://app.example:443", false),
            ("https://app.example:8443", false),
            ("https://app.example.evil.example", false),
            ("https://evilapp.example", false),
            ("https://app.example/", false),
            ("http://localhost", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(origins.admit(&headers(&[origin])), whether, "{origin}");
        }
        assert!(origins.admit(&headers(&[])), "no browser");
        assert!(!origins.admit(&headers(&["https://app.example", "https://app.example"])), "two");
    }

    #[test]
    fn without_a_list_all_may_come() {
        let origins = Origins::new(&[]).unwrap();
        assert!(origins.admit(&headers(&["null"])));
    }

    #[test]
    fn what_no_browser_would_send_cannot_be_listed() {
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
