//! Files of the public listener, built into the binary: the browser SDK, for `run`.

use std::sync::LazyLock;

use axum::Router;
use signaling_server::http::files::{self, Audience, File, SCRIPT};

/// Names that the SDK exports, each with its module.
const EXPORTS: &str = include_str!("../../client/web/index.js");
/// Modules of the SDK. A module comes after all modules that its top level uses.
const MODULES: &[&str] = &[
    include_str!("../../client/web/core/rules.js"),
    include_str!("../../client/web/core/mesh_error.js"),
    include_str!("../../client/web/core/outgoing.js"),
    include_str!("../../client/web/core/incoming.js"),
    include_str!("../../client/web/core/ending.js"),
    include_str!("../../client/web/core/retry_state.js"),
    include_str!("../../client/web/core/seen_messages.js"),
    include_str!("../../client/web/core/rooms.js"),
    include_str!("../../client/web/core/tokens.js"),
    include_str!("../../client/web/core/connection.js"),
    include_str!("../../client/web/core/pacer.js"),
    include_str!("../../client/web/core/members.js"),
    include_str!("../../client/web/core/requests.js"),
    include_str!("../../client/web/core/core.js"),
    include_str!("../../client/web/random_id.js"),
    include_str!("../../client/web/emitter.js"),
    include_str!("../../client/web/listen.js"),
    include_str!("../../client/web/abort.js"),
    include_str!("../../client/web/options.js"),
    include_str!("../../client/web/reason.js"),
    include_str!("../../client/web/token_source.js"),
    include_str!("../../client/web/socket.js"),
    include_str!("../../client/web/saved_session.js"),
    include_str!("../../client/web/room.js"),
    include_str!("../../client/web/core/negotiation.js"),
    include_str!("../../client/web/tracks.js"),
    include_str!("../../client/web/peer.js"),
    include_str!("../../client/web/call.js"),
    include_str!("../../client/web/client.js"),
];

/// The SDK for pages of any origin: as one module, and as one classic script with a global. A page
/// that loaded the modules one by one could get them from balancers of different releases.
static SDK: LazyLock<[File; 2]> = LazyLock::new(|| {
    let (joined, names) = (join(), exports().collect::<Vec<_>>().join(", "));
    let module = format!("{joined}export {{ {names} }};\n");
    let script = format!("var SignalingMesh = (() => {{\n'use strict';\n{joined}return {{ {names} }};\n}})();\n");
    let file = |path, text: String| File { path, kind: SCRIPT, text: text.leak() };
    [file("/signaling-mesh.mjs", module), file("/signaling-mesh.js", script)]
});

/// Returns the names that the SDK exports.
fn exports() -> impl Iterator<Item = &'static str> {
    EXPORTS.lines().filter_map(|line| line.strip_prefix("export { ")?.split(' ').next())
}

/// Joins the modules without their imports and exports.
fn join() -> String {
    let lines = MODULES.iter().flat_map(|module| module.lines()).filter(|line| !line.contains(" from './"));
    lines.flat_map(|line| [line.strip_prefix("export ").unwrap_or(line), "\n"]).collect()
}

/// Returns routes to the SDK's modules.
pub(crate) fn router() -> Router {
    files::serve(Router::new(), SDK.as_slice(), Audience::Anyone)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use axum::body::{Body, to_bytes};
    use axum::response::Response;
    use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
    use http::{HeaderValue, Request};
    use tower::ServiceExt as _;

    use super::*;

    async fn ask(path: &str, known: Option<&HeaderValue>) -> Response<Body> {
        let mut request = Request::get(path).body(Body::empty()).unwrap();
        if let Some(known) = known {
            request.headers_mut().insert(IF_NONE_MATCH, known.clone());
        }
        router().oneshot(request).await.unwrap()
    }

    /// Returns the files of a folder of the SDK's package.
    fn files_in(folder: &str) -> impl Iterator<Item = PathBuf> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../client").join(folder);
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path())
    }

    #[test]
    fn sdk_joins_every_module_and_its_exports() {
        for path in ["web", "web/core"].into_iter().flat_map(files_in) {
            let name = path.file_name().unwrap().to_str().unwrap();
            if name.ends_with(".js") && !name.ends_with(".test.js") && !["index.js", "react.js"].contains(&name) {
                let module = std::fs::read_to_string(&path).unwrap();
                assert!(MODULES.contains(&module.as_str()), "{name} is not served");
            }
        }
        assert_eq!(exports().count(), EXPORTS.matches("export").count());
        for file in SDK.iter() {
            assert!(
                !file.text.contains("import {")
                    && file.text.contains("return { Call, Client, ") | file.text.contains("export { Call, Client, ")
            );
        }
    }

    /// Modules share one scope when they are joined.
    #[test]
    fn sdk_has_each_top_level_name_once() {
        let mut names = std::collections::BTreeSet::new();
        for line in MODULES.iter().flat_map(|module| module.lines()) {
            let line = line.strip_prefix("export ").unwrap_or(line);
            let mut words = line.strip_prefix("async ").unwrap_or(line).split([' ', '(', ';', '=']);
            if ["const", "let", "function", "class"].contains(&words.next().unwrap()) {
                let name = words.next().unwrap();
                assert!(names.insert(name), "{name} is the name of two top-level items");
            }
        }
        assert!(names.contains("Client"));
    }

    #[tokio::test]
    async fn known_file_is_answered_with_not_modified() {
        let first = ask("/signaling-mesh.mjs", None).await;
        let headers = [CACHE_CONTROL, CONTENT_TYPE, ACCESS_CONTROL_ALLOW_ORIGIN].map(|name| &first.headers()[name]);
        assert_eq!(headers, ["no-cache", SCRIPT, "*"]);
        let tag = first.headers()[ETAG].clone();
        let weak = HeaderValue::from_str(&format!("\"other\", W/{}", tag.to_str().unwrap())).unwrap();
        for known in [&tag, &weak] {
            let again = ask("/signaling-mesh.mjs", Some(known)).await;
            assert_eq!((again.status().as_u16(), &again.headers()[ETAG]), (304, &tag));
            assert!(to_bytes(again.into_body(), 1).await.unwrap().is_empty());
        }
        let other = ask("/signaling-mesh.js", Some(&tag)).await;
        assert_eq!(other.status(), 200);
    }
}
