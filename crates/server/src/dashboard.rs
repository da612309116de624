//! The dashboard: a page that requests `/admin/nodes` of its own server once a second.
//! Both servers add it to the internal listener. The page itself needs no token; its requests send
//! the admin token, which the user enters.

use axum::Router;

use crate::http::files::{self, Audience, File};

/// Nothing from other origins, no inline script or style, nothing sent to other origins.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const FILES: &[File] = crate::built_in_files!["../web/":
    "/dashboard" HTML "index.html",
    "/dashboard/style.css" CSS "style.css",
    "/dashboard/icon.svg" SVG "icon.svg",
    "/dashboard/app.js" SCRIPT "app.js",
    "/dashboard/cards.js" SCRIPT "cards.js",
    "/dashboard/event_log.js" SCRIPT "event_log.js",
    "/dashboard/event_text.js" SCRIPT "event_text.js",
    "/dashboard/format.js" SCRIPT "format.js",
    "/dashboard/history.js" SCRIPT "history.js",
    "/dashboard/mesh.js" SCRIPT "mesh.js",
    "/dashboard/poll.js" SCRIPT "poll.js",
    "/dashboard/server.js" SCRIPT "server.js",
    "/dashboard/spark.js" SCRIPT "spark.js",
    "/dashboard/status.js" SCRIPT "status.js",
    "/dashboard/view.js" SCRIPT "view.js",
];

/// Returns the routes of the page: `GET /dashboard` and its files.
pub fn router() -> Router {
    files::serve(Router::new(), FILES, Audience::ThisOrigin(POLICY))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use ::http::Request;
    use ::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
    use axum::body::Body;
    use tower::ServiceExt as _;

    use super::*;

    #[test]
    fn dashboard_serves_every_file_of_the_page_and_no_test() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let path = |name: String| if name == "index.html" { "/dashboard".into() } else { format!("/dashboard/{name}") };
        let is_page = |name: &String| !name.ends_with(".test.js") && name != "package.json";
        let there: BTreeSet<_> = names.filter(is_page).map(path).collect();
        assert_eq!(there, FILES.iter().map(|file| file.path.to_owned()).collect());
    }

    #[tokio::test]
    async fn dashboard_page_may_load_nothing_from_other_origins() {
        let page = router().oneshot(Request::get("/dashboard").body(Body::empty()).unwrap()).await.unwrap();
        let html = "text/html; charset=utf-8".parse().unwrap();
        assert_eq!((page.status().as_u16(), &page.headers()[CONTENT_TYPE]), (200, &html));
        assert_eq!(page.headers()[CONTENT_SECURITY_POLICY], POLICY);
    }
}
