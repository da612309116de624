//! Meshes that require tokens.

use std::path::{Path, PathBuf};

use signaling_devmesh::MeshOptions;

use crate::TestMesh;
use crate::mint::{AUDIENCE, ISSUER, Signer};

impl TestMesh {
    /// Starts a mesh that requires tokens of this signer. The flags are those of balancers.
    pub async fn with_tokens(signer: &Signer, nodes: u32, balancers: u32, flags: &[&str]) -> Self {
        Self::with_options(|options| {
            (options.nodes, options.balancers) = (nodes, balancers);
            ask_for_tokens(options, signer);
            options.balancer_args.extend(flags.iter().map(ToString::to_string));
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
