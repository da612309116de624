//! Meshes that require tokens.

use std::path::{Path, PathBuf};

use signaling_devmesh::MeshOptions;

use crate::TestMesh;
use crate::mesh::set_servers;
use crate::mint::{AUDIENCE, ISSUER, Signer};

impl TestMesh {
    /// Starts a mesh as [`TestMesh::with_servers`] does, which requires tokens of this signer.
    pub async fn with_tokens(signer: &Signer, servers: (u32, u32), node_flags: &[&str], flags: &[&str]) -> Self {
        Self::with_options(|options| {
            set_servers(options, servers, node_flags, flags);
            ask_for_tokens(options, signer);
        })
        .await
    }
}

/// Has all servers require tokens of this signer, without leeway for expired ones.
pub fn ask_for_tokens(options: &mut MeshOptions, signer: &Signer) {
    let path = key_file(&options.dir);
    std::fs::write(&path, &signer.key_file).unwrap();
    let flags = [
        format!("--token-key-file={}", path.display()),
        format!("--token-algorithm={}", signer.algorithm),
        format!("--token-audience={AUDIENCE}"),
        format!("--token-issuer={ISSUER}"),
        "--token-leeway-s=0".to_owned(),
    ];
    options.node_args.extend(flags.clone());
    options.balancer_args.extend(flags);
}

/// Returns the path of the key file of a mesh in the folder `dir` that requires tokens.
pub fn key_file(dir: &Path) -> PathBuf {
    dir.join("token.keys")
}
