//! A server that has a mesh secret, but is not in the view: a peer of a test, or an intruder.

use std::io::Write as _;

use signaling_protocol::NodeId;
use signaling_server::proofs::{Proofs, Purpose};
use signaling_server::{HashSeed, Secrets};
use signaling_wire::Incarnation;

use crate::{Head, TestMesh, ask};

/// A server outside the view with the mesh's hash seed.
pub struct OtherServer(Proofs);

impl OtherServer {
    /// Returns a server with the present secret of the mesh.
    pub fn of(mesh: &TestMesh, id: &str) -> Self {
        Self::with_secret(mesh, id, &mesh.secret())
    }

    /// Returns a server with this secret.
    pub fn with_secret(mesh: &TestMesh, id: &str, secret: &str) -> Self {
        let seed = std::fs::read(mesh.dir.path().join("hash.seed")).unwrap();
        Self::new(id, secret, HashSeed::parse(&seed).unwrap())
    }

    /// Returns a server with this secret and hash seed.
    pub fn new(id: &str, secret: &str, seed: HashSeed) -> Self {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(secret.as_bytes()).unwrap();
        let secrets = Secrets::read(file.path()).unwrap();
        Self(Proofs::new(NodeId::new(id).unwrap(), Incarnation([9; 8]), seed, secrets))
    }

    /// Returns the request with a proof for a server of the mesh, whose incarnation it asks for.
    pub async fn prove(&self, purpose: Purpose, (server, internal): (&str, &str), head: &Head) -> Head {
        let server = NodeId::new(server).unwrap();
        let with_proof = || {
            let headers = self.0.headers(purpose, &server);
            headers.iter().fold(head.clone(), |head, (name, value)| head.with(name.as_str(), value.to_str().unwrap()))
        };
        let sent = self.0.headers(purpose, &server);
        if !sent.contains_key("authorization") {
            let answer = ask(internal, with_proof()).await;
            let headers = answer.headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            self.0.learn(&server, &sent, &headers.collect());
        }
        with_proof()
    }

    /// Returns the request with a proof for the first node.
    pub async fn prove_to_node(&self, mesh: &TestMesh, purpose: Purpose, head: &Head) -> Head {
        self.prove(purpose, ("node-0", &mesh.node_internal(0)), head).await
    }
}
