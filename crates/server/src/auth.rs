//! Authorization on the internal listener by the mesh secret or the admin token. `admin`,
//! `secrets`, `load_readiness` and the node's internal listener call it.

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

const MAX_SOURCES: usize = 1_024;

/// Returns `true` if the headers hold `Authorization: Bearer <secret>`. `false` without the header,
/// or if it occurs twice. The time of the comparison depends on the length alone.
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

/// Counts refused requests, and logs each source address once, up to 1,024 addresses.
#[derive(Debug, Default)]
pub struct RefusalLog {
    sources: HashSet<IpAddr>,
}

impl RefusalLog {
    /// Counts a request without secret in `signaling_refused_internal_total`. Logs new sources.
    pub fn record(&mut self, source: IpAddr) {
        METRICS.internal_refusals.of(InternalRefusal::Secret).inc();
        if self.sources.len() < MAX_SOURCES && self.sources.insert(source) {
            warn!(%source, "request without the mesh secret refused; compare --mesh-secret-file of both servers");
            if self.sources.len() == MAX_SOURCES {
                warn!("requests of {MAX_SOURCES} sources refused, further sources are only counted");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn secret_is_accepted_as_bearer_token() {
        let secret = Secret::new("0123456789abcdef").unwrap();
        for value in [secret.bearer(), "bearer 0123456789abcdef".parse().unwrap()] {
            assert!(authorized(&HeaderMap::from_iter([(AUTHORIZATION, value)]), &secret));
        }
    }

    #[test]
    fn refusal_log_is_bounded_when_many_sources_are_refused() {
        let mut log = RefusalLog::default();
        (0..2_000).for_each(|number| log.record(Ipv4Addr::from(number).into()));
        assert_eq!(log.sources.len(), MAX_SOURCES);
    }
}
