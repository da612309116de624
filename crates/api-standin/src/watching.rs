//! One watch: sends the events of `store` as lines, and fails as tests order.

use std::io;
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::poll_fn;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use crate::serve::status_object;
use crate::store::{Selection, line};
use crate::{Fault, Shared};

/// Maximum lines that the connection has not accepted; the watch waits then.
const MAX_QUEUED_LINES: usize = 16;
/// Interval of bookmarks on a watch. The real server uses 1 minute.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct WatchRequest {
    pub(crate) selection: Selection,
    /// Events after this version are sent.
    pub(crate) version: u64,
    /// Time after which the watch ends in good order.
    pub(crate) seconds: u64,
}

/// Starts a watch and returns its lines; an error breaks the connection. Ends when dropped.
pub(crate) fn lines(shared: Shared, request: WatchRequest) -> impl Stream<Item = io::Result<String>> {
    let (sender, mut lines) = mpsc::channel(MAX_QUEUED_LINES);
    let task = AbortOnDropHandle::new(tokio::spawn(watch(shared, request, sender)));
    poll_fn(move |context| {
        let _ = &task;
        lines.poll_recv(context)
    })
}

type Lines = mpsc::Sender<io::Result<String>>;
type Gone = mpsc::error::SendError<io::Result<String>>;

/// Returns when the watch must end in good order. An error means that the client has disconnected.
async fn watch(shared: Shared, mut request: WatchRequest, lines: Lines) -> Result<(), Gone> {
    let end = Instant::now() + Duration::from_secs(request.seconds);
    let mut bookmark = Instant::now() + BOOKMARK_INTERVAL;
    let mut changes = shared.subscribe();
    let era = shared.borrow().era;
    loop {
        let (fault, is_over, events, version) = {
            let state = changes.borrow_and_update();
            let events = state.store.since(request.version, &request.selection);
            (state.watch_fault, state.era != era, events, state.store.version)
        };
        match fault {
            Some(Fault::Silent) => std::future::pending().await,
            Some(Fault::EndsAtOnce) => return Ok(()),
            Some(Fault::Cut) => {
                // In the middle of a line, and of the answer.
                lines.send(Ok("{\"type\":\"MODI".to_owned())).await?;
                return lines.send(Err(io::Error::other("cut"))).await;
            }
            _ if is_over => return Ok(()),
            _ => {}
        }
        let Some(events) = events else {
            return lines.send(Ok(line("ERROR", &status_object(410)))).await;
        };
        for event in events {
            let line = line(event.kind, &event.object);
            if fault == Some(Fault::Truncated) {
                return lines.send(Ok(line[..line.len() / 2].to_owned())).await;
            }
            lines.send(Ok(line)).await?;
        }
        request.version = version;
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return Ok(()) },
            () = sleep_until(end) => return Ok(()),
            () = sleep_until(bookmark) => {
                lines.send(Ok(line("BOOKMARK", &bookmark_object(version)))).await?;
                bookmark = Instant::now() + BOOKMARK_INTERVAL;
            }
        }
    }
}

fn bookmark_object(version: u64) -> serde_json::Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "resourceVersion": version.to_string() },
    })
}
