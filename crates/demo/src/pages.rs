//! Files of the demo page and of the pages with clients of dialects, built into the binary.

use axum::Router;
use signaling_server::built_in_files;
use signaling_server::http::files::{self, Audience, File};

/// Content security policy of the demo: own files, WebSockets to any host, no inline scripts.
const POLICY: &str =
    "default-src 'self'; connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Policy of pages with clients of dialects. They also load packages from a CDN, by their hashes.
/// The hash here is that of the import map, which `packages.js` adds.
const PACKAGES_POLICY: &str = "default-src 'self'; connect-src 'self' ws: wss:; \
     script-src 'self' https://unpkg.com/ 'sha256-XLtrl6ktqOIk9hfVsQ3C9Tg9z45HTMNeRgAZsRLSD0E='; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const DEMO: &[File] = built_in_files!["../web/":
    "/" HTML "index.html",
    "/style.css" CSS "style.css",
    "/icon.svg" SVG "icon.svg",
    "/app.js" SCRIPT "app.js",
    "/camera.js" SCRIPT "camera.js",
    "/explain.js" SCRIPT "explain.js",
    "/identity.js" SCRIPT "identity.js",
    "/mesh.js" SCRIPT "mesh.js",
    "/pattern.js" SCRIPT "pattern.js",
    "/tiles.js" SCRIPT "tiles.js",
    "/view.js" SCRIPT "view.js",
];

/// Pages with clients of dialects, and their modules.
const DIALECTS: &[File] = built_in_files!["../web/":
    "/peerjs.html" HTML "peerjs.html",
    "/peerjs.js" SCRIPT "peerjs.js",
    "/y-webrtc.html" HTML "y-webrtc.html",
    "/y-webrtc.js" SCRIPT "y-webrtc.js",
    "/packages.js" SCRIPT "packages.js",
    "/simple-peer.js" SCRIPT "simple-peer.js",
];

pub(crate) fn router() -> Router {
    let router = files::serve(Router::new(), DEMO, Audience::ThisOrigin(POLICY));
    files::serve(router, DIALECTS, Audience::ThisOrigin(PACKAGES_POLICY))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_the_folder_is_served() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
        for file in std::fs::read_dir(folder).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            let path = if name == "index.html" { "/".to_owned() } else { format!("/{name}") };
            assert!([DEMO, DIALECTS].concat().iter().any(|file| file.path == path), "{path} is not served");
        }
    }
}
