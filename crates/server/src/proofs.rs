//! Proofs of the mesh secret, by which servers open connections to each other.
//!
//! A proof is an HMAC-SHA256 over its [`Purpose`], the names of both servers, and the receiver's
//! incarnation. So it opens nothing else, nothing elsewhere, and nothing after the receiver's
//! process ends, and no clocks have to agree. The receiver reports its incarnation with each
//! refusal: an opener without it, or with that of an earlier process, tries again at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use ::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use signaling_protocol::NodeId;
use signaling_wire::Incarnation;

use crate::http::refusal;
use crate::{HashSeed, MeshSecret, Secrets};

/// Request header with the name of the sending server.
const SERVER_HEADER: &str = "signaling-server";
/// Response header with the receiver's incarnation: 16 hexadecimal digits.
pub const INCARNATION_HEADER: &str = "signaling-incarnation";
/// Request header with an HMAC of the hash seed, without which two servers disagree on owners.
const SEED_HEADER: &str = "signaling-hash-seed";
const SCHEME: &str = "Signaling-Mesh";
const CONTEXT: &[u8] = b"proof v1";
const SEED_CONTEXT: &[u8] = b"hash seed v1";
/// Maximum servers whose incarnations are kept. Discovery names fewer.
const MAX_KNOWN: usize = 10_000;

/// What a proof opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A trunk of an edge.
    Trunk,
    /// An exchange of a lane.
    Lane,
    /// Any other request between servers.
    Request,
}

impl Purpose {
    fn context(self) -> &'static [u8] {
        match self {
            Self::Trunk => b"trunk",
            Self::Lane => b"lane",
            Self::Request => b"request",
        }
    }

    /// Returns `true` if both ends must have the same hash seed.
    fn needs_seed(self) -> bool {
        self != Self::Request
    }
}

/// The server behind an accepted proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opener {
    /// Its name.
    pub server: NodeId,
    /// The secret that it has proven.
    pub secret: MeshSecret,
}

/// Reason why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The opener asks for the incarnation, or has that of an earlier process.
    #[error("the proof is for another process; make one for the incarnation in {INCARNATION_HEADER}")]
    OtherProcess,
    /// There is no proof of an accepted secret.
    #[error("this needs a proof of the mesh secret; compare --mesh-secret-file of both servers")]
    NoProof,
    /// The opener has another hash seed.
    #[error("this server has another hash seed; compare --hash-seed-file of both servers")]
    OtherSeed,
}

/// Makes this server's proofs, and checks those of others. Clones share what they learn.
#[derive(Debug, Clone)]
pub struct Proofs {
    id: NodeId,
    incarnation: Incarnation,
    seed: HashSeed,
    secrets: Secrets,
    known: Arc<Mutex<HashMap<NodeId, Incarnation>>>,
}

impl Proofs {
    /// Creates the proofs of a server, whose process start has this incarnation.
    pub fn new(id: NodeId, incarnation: Incarnation, seed: HashSeed, secrets: Secrets) -> Self {
        Self { id, incarnation, seed, secrets, known: Arc::default() }
    }

    /// Returns the incarnation of this server.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Returns the secrets that the proofs are made and checked with.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Returns the headers of a request to `server`, with a proof of the primary secret. Without a
    /// known incarnation of `server` they have none, and [`Proofs::learn`] reads it from the
    /// refusal.
    pub fn headers(&self, purpose: Purpose, server: &NodeId) -> HeaderMap {
        let mut headers = HeaderMap::new();
        // A name is visible ASCII.
        if let Ok(name) = HeaderValue::from_str(self.id.as_str()) {
            headers.insert(SERVER_HEADER, name);
        }
        let secret = self.secrets.primary();
        if purpose.needs_seed()
            && let Ok(seed) = HeaderValue::from_str(&encoded(&self.seed_mac(&secret)))
        {
            headers.insert(SEED_HEADER, seed);
        }
        let incarnation = self.known().get(server).copied();
        if let Some(incarnation) = incarnation {
            let mac = hmac::sign(secret.between_servers(), &message(purpose, (&self.id, server), incarnation));
            if let Ok(mut proof) = HeaderValue::from_str(&format!("{SCHEME} {incarnation}.{}", encoded(&mac))) {
                proof.set_sensitive(true);
                headers.insert(AUTHORIZATION, proof);
            }
        }
        headers
    }

    /// Reads the incarnation of `server` from its refusal of a request with the headers `sent`.
    /// Returns `true` if they had no proof for that process, so that another try may succeed.
    pub fn learn(&self, server: &NodeId, sent: &HeaderMap, refusal: &HeaderMap) -> bool {
        let Some(incarnation) = incarnation_in(refusal) else { return false };
        let mut known = self.known();
        if known.len() >= MAX_KNOWN && !known.contains_key(server) {
            known.clear();
        }
        known.insert(server.clone(), incarnation);
        // Another request may have stored it since `sent` was made.
        proof_in(sent).and_then(|(of, _)| of.parse().ok()) != Some(incarnation)
    }

    /// Returns the server that sent a request with these headers.
    ///
    /// # Errors
    /// If the headers have no proof of an accepted secret for this server, this process and this
    /// purpose, or the sender has another hash seed.
    pub fn check(&self, purpose: Purpose, headers: &HeaderMap) -> Result<Opener, ProofError> {
        let server = only(headers, SERVER_HEADER).ok_or(ProofError::NoProof)?;
        let server = NodeId::new(server).map_err(|_| ProofError::NoProof)?;
        if !headers.contains_key(AUTHORIZATION) {
            return Err(ProofError::OtherProcess);
        }
        let (incarnation, mac) = proof_in(headers).ok_or(ProofError::NoProof)?;
        if incarnation.parse().ok() != Some(self.incarnation) {
            return Err(ProofError::OtherProcess);
        }
        let mac = URL_SAFE_NO_PAD.decode(mac).map_err(|_| ProofError::NoProof)?;
        let message = message(purpose, (&server, &self.id), self.incarnation);
        let accepted = self.secrets.accepted();
        let proven = |secret: &&MeshSecret| hmac::verify(secret.between_servers(), &message, &mac).is_ok();
        let secret = accepted.iter().find(proven).ok_or(ProofError::NoProof)?.clone();
        if purpose.needs_seed() && only(headers, SEED_HEADER) != Some(&encoded(&self.seed_mac(&secret))) {
            return Err(ProofError::OtherSeed);
        }
        Ok(Opener { server, secret })
    }

    /// Returns the answer to a refused request, with the incarnation of this server.
    pub fn refuse(&self, error: ProofError) -> Response {
        let (status, code) = match error {
            ProofError::OtherProcess | ProofError::NoProof => (StatusCode::UNAUTHORIZED, "unauthorized"),
            ProofError::OtherSeed => (StatusCode::CONFLICT, "other_hash_seed"),
        };
        let message = format!("{error} (this server is {})", self.id);
        let mut response = refusal(status, code, &message, None);
        let headers = response.headers_mut();
        if let Ok(incarnation) = HeaderValue::from_str(&self.incarnation.to_string()) {
            headers.insert(INCARNATION_HEADER, incarnation);
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(SCHEME));
        }
        response
    }

    /// A MAC, since seeds of few digits could be found from a plain hash.
    fn seed_mac(&self, secret: &MeshSecret) -> hmac::Tag {
        hmac::sign(secret.between_servers(), &[SEED_CONTEXT, &self.seed.get().to_be_bytes()].concat())
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<NodeId, Incarnation>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the incarnation of the server that answered with these headers.
pub fn incarnation_in(headers: &HeaderMap) -> Option<Incarnation> {
    headers.get(INCARNATION_HEADER)?.to_str().ok()?.parse().ok()
}

/// Returns what a proof authenticates. Names have no line breaks, so that fields cannot run over.
fn message(purpose: Purpose, (from, to): (&NodeId, &NodeId), incarnation: Incarnation) -> Vec<u8> {
    [CONTEXT, purpose.context(), from.as_str().as_bytes(), to.as_str().as_bytes(), &incarnation.0].join(&b'\n')
}

fn encoded(tag: &hmac::Tag) -> String {
    URL_SAFE_NO_PAD.encode(tag)
}

/// Returns the incarnation and the MAC of the proof in these headers.
fn proof_in(headers: &HeaderMap) -> Option<(&str, &str)> {
    only(headers, AUTHORIZATION.as_str())?.strip_prefix(SCHEME)?.trim_start().split_once('.')
}

fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    values.next().is_none().then(|| value.to_str().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    const OLD: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    const NEW: &str = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100";

    fn name(id: &str) -> NodeId {
        NodeId::new(id).unwrap()
    }

    fn proofs(id: &str, process: u8, seed: &str, secrets: &[&str]) -> Proofs {
        let seed = HashSeed::parse(seed.as_bytes()).unwrap();
        Proofs::new(name(id), Incarnation([process; 8]), seed, testing::secrets(&secrets.join("\n")))
    }

    /// Opens `to` as a server does: once more if the refusal has a new incarnation.
    fn open(from: &Proofs, to: &Proofs, purpose: Purpose) -> Result<Opener, ProofError> {
        let sent = from.headers(purpose, &to.id);
        to.check(purpose, &sent).or_else(|error| {
            let has_learned = from.learn(&to.id, &sent, to.refuse(error).headers());
            if has_learned { to.check(purpose, &from.headers(purpose, &to.id)) } else { Err(error) }
        })
    }

    #[test]
    fn server_opens_another_one_whose_incarnation_it_learns() {
        let (a, b) = (proofs("a", 1, "7", &[OLD]), proofs("b", 2, "7", &[OLD]));
        let opener = open(&a, &b, Purpose::Lane).unwrap();
        assert_eq!((opener.server, opener.secret), (name("a"), MeshSecret::new(OLD).unwrap()));
        assert!(b.check(Purpose::Lane, &a.headers(Purpose::Lane, &b.id)).is_ok(), "known from then on");
        let restarted = proofs("b", 3, "7", &[OLD]);
        assert_eq!(restarted.check(Purpose::Lane, &a.headers(Purpose::Lane, &b.id)), Err(ProofError::OtherProcess));
        assert!(open(&a, &restarted, Purpose::Lane).is_ok());
    }

    #[test]
    fn each_of_two_first_requests_is_tried_again() {
        let (a, b) = (proofs("a", 1, "7", &[OLD]), proofs("b", 2, "7", &[OLD]));
        let sent = a.headers(Purpose::Lane, &b.id);
        let refusal = b.refuse(b.check(Purpose::Lane, &sent).unwrap_err());
        assert!(a.learn(&b.id, &sent, refusal.headers()) && a.learn(&b.id, &sent, refusal.headers()));
        let proven = a.headers(Purpose::Lane, &b.id);
        assert!(!a.learn(&b.id, &proven, refusal.headers()), "it fails for another reason");
    }

    #[test]
    fn proof_opens_nothing_but_what_it_names() {
        let (a, b, c) = (proofs("a", 1, "7", &[OLD]), proofs("b", 2, "7", &[OLD]), proofs("c", 2, "7", &[OLD]));
        assert!(open(&a, &b, Purpose::Lane).is_ok());
        let proof = a.headers(Purpose::Lane, &b.id);
        assert_eq!(c.check(Purpose::Lane, &proof), Err(ProofError::NoProof), "another server");
        assert_eq!(b.check(Purpose::Trunk, &proof), Err(ProofError::NoProof), "another purpose");
        let mut renamed = proof;
        renamed.insert(SERVER_HEADER, HeaderValue::from_static("d"));
        assert_eq!(b.check(Purpose::Lane, &renamed), Err(ProofError::NoProof), "another sender");
        renamed.remove(SERVER_HEADER);
        assert_eq!(b.check(Purpose::Lane, &renamed), Err(ProofError::NoProof), "no sender");
    }

    #[test]
    fn server_with_another_secret_or_seed_is_refused() {
        let b = proofs("b", 2, "7", &[OLD]);
        assert_eq!(open(&proofs("a", 1, "7", &[NEW]), &b, Purpose::Lane), Err(ProofError::NoProof));
        let other_seed = proofs("a", 1, "8", &[OLD]);
        assert_eq!(open(&other_seed, &b, Purpose::Lane), Err(ProofError::OtherSeed));
        assert!(open(&other_seed, &b, Purpose::Request).is_ok(), "no owner depends on it");
        let message = b.refuse(ProofError::OtherSeed);
        assert_eq!(message.status(), StatusCode::CONFLICT);
    }

    #[test]
    fn holder_of_the_old_secret_opens_servers_until_it_is_removed() {
        let steps: [(&[&str], bool); 4] = [(&[OLD], true), (&[OLD, NEW], true), (&[NEW, OLD], true), (&[NEW], false)];
        for (accepted, opens) in steps {
            let (server, holder) = (proofs("b", 2, "7", accepted), proofs("evil", 9, "7", &[OLD]));
            assert_eq!(open(&holder, &server, Purpose::Trunk).is_ok(), opens, "{accepted:?}");
            // What a server sends to the holder's address helps nowhere and has no secret.
            assert!(
                !open(&server, &holder, Purpose::Lane)
                    .is_ok_and(|opener| accepted[0] != OLD || opener.server != server.id)
            );
            let sent = server.headers(Purpose::Lane, &holder.id);
            let other = proofs("c", 9, "7", accepted);
            assert!(other.check(Purpose::Lane, &sent).is_err(), "{accepted:?}");
            for value in sent.values() {
                assert!(!value.to_str().unwrap().contains(OLD) && !value.to_str().unwrap().contains(NEW));
            }
        }
    }
}
