//! Who may speak on the internal listener: whoever shows the mesh secret.

use std::collections::HashSet;
use std::net::IpAddr;

use ::http::header::AUTHORIZATION;
use ::http::{HeaderMap, StatusCode};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tracing::warn;

use crate::http::refusal;
use crate::metrics::{InternalRefusal, METRICS};
use crate::{Secret, Secrets};

/// How many refused sources are remembered, so that a flood of them costs no memory.
const MAX_SOURCES: usize = 1_024;

/// Says whether the headers hold `Authorization: Bearer <secret>`, once. Compares in constant time.
#[must_use]
pub fn authorized(headers: &HeaderMap, secret: &Secret) -> bool {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    match value.as_bytes().split_at_checked(7) {
        Some((scheme, token)) => scheme.eq_ignore_ascii_case(b"Bearer ") && secret.matches(token),
        None => false,
    }
}

/// Middleware that answers 401 to a request without the mesh secret.
pub(crate) async fn require_mesh_secret(State(secrets): State<Secrets>, request: Request, next: Next) -> Response {
    if secrets.authorize(request.headers()) {
        return next.run(request).await;
    }
    METRICS.internal_refusals.of(InternalRefusal::Secret).inc();
    refusal(StatusCode::UNAUTHORIZED, "unauthorized", "this needs the mesh secret as bearer token", None)
}

/// Counts refused requests, and logs each source address once.
#[derive(Debug, Default)]
pub struct RefusalLog {
    sources: HashSet<IpAddr>,
    overflowed: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Sighting {
    First,
    Again,
    /// The first source for which there was no room.
    Overflow,
}

impl RefusalLog {
    /// A request from this source did not show the mesh secret.
    pub fn refused(&mut self, source: IpAddr) {
        METRICS.internal_refusals.of(InternalRefusal::Secret).inc();
        match self.see(source) {
            Sighting::First => {
                warn!(%source, "refused a request without the mesh secret; is --mesh-secret-file the same?");
            }
            Sighting::Overflow => {
                warn!("refused requests from {MAX_SOURCES} sources; further ones are only counted");
            }
            Sighting::Again => {}
        }
    }

    fn see(&mut self, source: IpAddr) -> Sighting {
        if self.sources.contains(&source) || self.overflowed {
            return Sighting::Again;
        }
        if self.sources.len() == MAX_SOURCES {
            self.overflowed = true;
            return Sighting::Overflow;
        }
        self.sources.insert(source);
        Sighting::First
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::Ipv4Addr;

    use super::*;

    const TEXT: &str = "0123456789abcdef";

    #[test]
    fn the_secret_is_taken_from_the_authorization_header() {
        let secret = Secret::new(TEXT).unwrap();
        assert!(authorized(&HeaderMap::from_iter([(AUTHORIZATION, secret.bearer())]), &secret));
        assert!(authorized(&headers(&["bearer 0123456789abcdef"]), &secret));
    }

    #[test]
    fn anything_else_is_refused() {
        let secret = Secret::new(TEXT).unwrap();
        let right = "Bearer 0123456789abcdef";
        for bad in [
            &[][..],
            &[""],
            &["Bearer"],
            &["Bearer "],
            &["Basic 0123456789abcdef"],
            &["0123456789abcdef"],
            &["Bearer 0123456789abcdeF"],
            &["Bearer 0123456789abcdef "],
            &["Bearer  0123456789abcdef"],
            &[right, right],
        ] {
            assert!(!authorized(&headers(bad), &secret), "{bad:?}");
        }
    }

    #[test]
    fn a_source_is_seen_for_the_first_time_once() {
        let mut log = RefusalLog::default();
        assert_eq!(log.see(source(1)), Sighting::First);
        assert_eq!(log.see(source(1)), Sighting::Again);
        assert_eq!(log.see(source(2)), Sighting::First);
    }

    #[test]
    fn a_flood_of_sources_is_told_once_and_not_remembered() {
        let mut log = RefusalLog::default();
        for number in 0..1_024 {
            assert_eq!(log.see(source(number)), Sighting::First);
        }
        assert_eq!(log.see(source(1_024)), Sighting::Overflow);
        assert_eq!(log.see(source(1_025)), Sighting::Again);
        assert_eq!(log.sources.len(), MAX_SOURCES);
    }

    fn source(number: u32) -> IpAddr {
        Ipv4Addr::from(number).into()
    }

    fn headers(values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (AUTHORIZATION, value.parse().unwrap())).collect()
    }
}
