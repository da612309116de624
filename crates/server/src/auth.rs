//! Authorization on the internal listener by the mesh secret or the admin token. `admin`,
//! `secrets`, `load_readiness` and the node's internal listener call it.

use std::collections::HashSet;
use std::net::IpAddr;

use ::http::HeaderMap;
use ::http::header::AUTHORIZATION;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tracing::warn;

use crate::metrics::{InternalRefusal, METRICS};
use crate::proofs::{ProofError, Proofs, Purpose};

const MAX_SOURCES: usize = 1_024;

/// Returns the token of `Authorization: Bearer <token>`. `None`: there is no such header, or the
/// header occurs twice.
pub fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
}

/// Middleware that refuses a request without a proof of the mesh secret.
pub(crate) async fn require_proof(State(proofs): State<Proofs>, request: Request, next: Next) -> Response {
    match proofs.check(Purpose::Request, request.headers()) {
        Ok(_) => next.run(request).await,
        Err(error) => {
            if error == ProofError::NoProof {
                METRICS.internal_refusals.of(InternalRefusal::Secret).inc();
            }
            proofs.refuse(error)
        }
    }
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
            warn!(%source, "request without a proof of the mesh secret refused; compare --mesh-secret-file of both servers");
            if self.sources.len() == MAX_SOURCES {
                warn!("requests of {MAX_SOURCES} sources refused, further sources are only counted");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use ::http::HeaderValue;

    use super::*;

    #[test]
    fn bearer_token_is_read_from_the_only_header() {
        let headers = |values: &[&'static str]| {
            HeaderMap::from_iter(values.iter().map(|value| (AUTHORIZATION, HeaderValue::from_static(value))))
        };
        for value in ["Bearer a-token", "bearer a-token"] {
            assert_eq!(bearer_token(&headers(&[value])), Some(&b"a-token"[..]), "{value}");
        }
        let twice = ["Bearer a-token"; 2];
        for values in [&[][..], &["Basic a-token"], &["Bearer"], &["Bearer\ta-token"], &twice] {
            assert_eq!(bearer_token(&headers(values)), None, "{values:?}");
        }
    }

    #[test]
    fn refusal_log_is_bounded_when_many_sources_are_refused() {
        let mut log = RefusalLog::default();
        (0..2_000).for_each(|number| log.record(Ipv4Addr::from(number).into()));
        assert_eq!(log.sources.len(), MAX_SOURCES);
    }
}
