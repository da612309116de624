//! The page, the status, and the stream of snapshots.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures_util::stream::{self, StreamExt as _};
use http::header::{CACHE_CONTROL, HeaderName};
use http::{HeaderValue, StatusCode};
use signaling_server::http::files::{self, Audience, File};
use signaling_server::http::refusal;
use signaling_server::metrics::{InternalRefusal, refused_internal};

use crate::collector::{STATUS, client, collect};
use crate::keeper::Keeper;
use crate::watchers::{Collector, MOST, Watchers};

/// Nothing from elsewhere, no inline script or style, nothing sent anywhere else.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// When a browser whose stream broke asks again.
const RETRY: Duration = Duration::from_secs(1);
/// A stream on which nothing happens says so this often.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
const TRY_LATER: Duration = Duration::from_secs(5);
/// Proxies that gather answers before they send them on must not: nginx obeys.
const UNBUFFERED: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));

const FILES: &[File] = signaling_server::built_in_files!["../web/":
    "/dashboard" HTML "index.html",
    "/dashboard/style.css" CSS "style.css",
    "/dashboard/icon.svg" SVG "icon.svg",
    "/dashboard/app.js" SCRIPT "app.js",
    "/dashboard/cards.js" SCRIPT "cards.js",
    "/dashboard/format.js" SCRIPT "format.js",
    "/dashboard/history.js" SCRIPT "history.js",
    "/dashboard/reading.js" SCRIPT "reading.js",
    "/dashboard/spark.js" SCRIPT "spark.js",
    "/dashboard/stream.js" SCRIPT "stream.js",
    "/dashboard/view.js" SCRIPT "view.js",
    "/dashboard/words.js" SCRIPT "words.js",
];

#[derive(Clone)]
struct Desk {
    keeper: Keeper,
    http: reqwest::Client,
    watchers: Arc<Watchers>,
}

/// `GET /dashboard` and what belongs to the page, `/dashboard/status` (this server alone, as JSON) and `/dashboard/events`
/// (snapshots of the mesh, by server-sent events). All only tell, and no more than metrics do: they ask for no secret.
///
/// # Errors
/// If the system refuses what asking other servers needs.
pub fn router(keeper: Keeper) -> Result<Router, reqwest::Error> {
    let desk = Desk { keeper, http: client()?, watchers: Watchers::new() };
    let told = Router::new().route(STATUS, get(status)).route("/dashboard/events", get(events)).with_state(desk);
    Ok(files::serve(told, FILES, Audience::ThisOrigin(POLICY)))
}

async fn status(State(desk): State<Desk>) -> Response {
    match desk.keeper.status().await {
        Some(status) => ([(CACHE_CONTROL, "no-store")], Json(status)).into_response(),
        None => refusal(StatusCode::SERVICE_UNAVAILABLE, "stopping", "this server stops", None),
    }
}

async fn events(State(desk): State<Desk>) -> Response {
    let Some((watcher, collector)) = desk.watchers.join() else {
        refused_internal(InternalRefusal::Watchers);
        let message = format!("{MOST} watch already, which is all that may; close one, or watch another server");
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "too_many_watchers", &message, Some(TRY_LATER));
    };
    if collector == Collector::MustBeStarted {
        tokio::spawn(collect(desk.keeper, desk.http, desk.watchers));
    }
    let snapshots = stream::unfold(watcher, |mut watcher| async move {
        let snapshot = watcher.next().await?;
        Some((Event::default().data(snapshot), watcher))
    });
    let begin = stream::iter([Event::default().retry(RETRY)]);
    let events =
        Sse::new(begin.chain(snapshots).map(Ok::<_, Infallible>)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    ([UNBUFFERED], events).into_response()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::rc::Rc;

    use axum::body::{Body, to_bytes};
    use http::Request;
    use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
    use http_body_util::BodyExt as _;
    use signaling_discovery::watch;
    use signaling_server::Health;
    use tower::ServiceExt as _;

    use super::*;
    use crate::{About, Report, Role};

    /// Talks to the routes of a node that is alone in its view.
    async fn with_node(talk: impl AsyncFnOnce(Router)) {
        let discovery = Rc::new(watch("static:node-0=127.0.0.1:1".parse().unwrap()).await.unwrap());
        let about = About { id: "node-0".parse().unwrap(), role: Role::Node, stale_after: None };
        let (keeper, task) = Keeper::new(about, Health::new(), discovery, Report::default);
        tokio::select! {
            () = talk(router(keeper).unwrap()) => {}
            () = task => panic!("the keeper has ended"),
        }
    }

    async fn get(router: &Router, path: &str) -> Response {
        router.clone().oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap()
    }

    /// The next frame of a stream, as text.
    async fn frame(stream: &mut Body) -> String {
        let frame = stream.frame().await.unwrap().unwrap().into_data().unwrap();
        String::from_utf8(frame.to_vec()).unwrap()
    }

    #[test]
    fn every_file_of_the_page_is_served_and_no_test() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let path = |name: String| if name == "index.html" { "/dashboard".into() } else { format!("/dashboard/{name}") };
        let is_page = |name: &String| !name.ends_with(".test.js") && name != "package.json";
        let there: BTreeSet<_> = names.filter(is_page).map(path).collect();
        assert_eq!(there, FILES.iter().map(|file| file.path.to_owned()).collect());
    }

    #[tokio::test]
    async fn the_page_may_take_nothing_from_elsewhere() {
        with_node(async |router| {
            let page = get(&router, "/dashboard").await;
            assert_eq!(
                (page.status().as_u16(), &page.headers()[CONTENT_TYPE]),
                (200, &"text/html; charset=utf-8".parse().unwrap())
            );
            assert_eq!(page.headers()[CONTENT_SECURITY_POLICY], POLICY);
        })
        .await;
    }

    #[tokio::test]
    async fn a_server_tells_of_itself() {
        with_node(async |router| {
            let answer = get(&router, STATUS).await;
            assert_eq!(answer.headers()[CACHE_CONTROL], "no-store");
            let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
            let status: crate::Status = serde_json::from_slice(&body).unwrap();
            assert_eq!((status.id.as_str(), status.role), ("node-0", Role::Node));
        })
        .await;
    }

    #[tokio::test]
    async fn the_stream_tells_when_to_come_back_and_then_one_snapshot_after_the_other() {
        with_node(async |router| {
            let answer = get(&router, "/dashboard/events").await;
            assert_eq!(answer.headers()[CONTENT_TYPE], "text/event-stream");
            assert_eq!(answer.headers()[CACHE_CONTROL], "no-cache");
            let mut stream = answer.into_body();
            assert_eq!(frame(&mut stream).await, "retry: 1000\n\n");
            for _ in 0..2 {
                let text = frame(&mut stream).await;
                let snapshot: serde_json::Value =
                    serde_json::from_str(text.strip_prefix("data: ").unwrap().trim()).unwrap();
                assert_eq!((&snapshot["by"], &snapshot["servers"][0]["state"]), (&"node-0".into(), &"unready".into()));
            }
        })
        .await;
    }

    #[tokio::test]
    async fn one_too_many_is_told_so() {
        with_node(async |router| {
            let mut streams = Vec::new();
            for _ in 0..MOST {
                streams.push(get(&router, "/dashboard/events").await);
            }
            let refused = get(&router, "/dashboard/events").await;
            assert_eq!(refused.status(), 503);
            drop(streams);
            assert_eq!(get(&router, "/dashboard/events").await.status(), 200);
        })
        .await;
    }
}
