//! The handle of a followed source, and its creation by both servers at their start.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::following::{Following, News};
use crate::publisher::{Publisher, Readings};
use crate::{Settings, Source, SourceError, dns, file, kubernetes};
use signaling_membership::View;

/// Handle of a followed source. Dropping it ends following and closes the receivers.
pub struct Discovery {
    views: watch::Sender<Arc<View>>,
    readings: watch::Receiver<Readings>,
    /// The task that follows the source; `None` for a static list.
    task: Option<AbortOnDropHandle<()>>,
}

impl Discovery {
    /// Returns a receiver of the current view, which is empty before the first reading, and its
    /// successors. A slow one gets only the newest.
    pub fn subscribe(&self) -> watch::Receiver<Arc<View>> {
        self.views.subscribe()
    }

    /// Returns the time since the last good reading, else since the start. 0 for a static list. A
    /// suddenly empty reading is not good.
    pub fn age(&self) -> Duration {
        self.task.as_ref().map_or(Duration::ZERO, |_| self.readings.borrow().last_good.elapsed())
    }

    /// Waits until the source was read once; an empty view before means nothing. A missing file
    /// counts as read, a failed query does not. Never ends if the handle is dropped before.
    pub fn first_reading(&self) -> impl Future<Output = ()> + use<> {
        let mut readings = self.readings.clone();
        async move {
            if readings.wait_for(|readings| readings.has_any).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Starts to follow a source with default settings. A static list or a file was read when this
/// returns; others later. A missing or invalid file, or a source without an answer, is no error:
/// the view stays empty until it can be read. Panics outside a Tokio runtime with timers and I/O.
///
/// # Errors
/// If this process has no usable configuration for the Kubernetes API. Other sources cause none.
pub async fn watch(source: Source) -> Result<Discovery, SourceError> {
    watch_with(source, &Settings::default()).await
}

/// Starts to follow a source with the given settings.
///
/// # Errors
/// As [`watch()`].
pub async fn watch_with(source: Source, settings: &Settings) -> Result<Discovery, SourceError> {
    let publisher = Publisher::new(source.to_string(), settings.subject);
    let (views, readings) = (publisher.views.clone(), publisher.readings.subscribe());
    let (sender, mut following) = Following::new(publisher, settings);
    let reports = match source {
        Source::Static(view) => {
            following.apply(News::View(Ok(view)));
            return Ok(Discovery { views, readings, task: None });
        }
        Source::File(path) => {
            following.apply(file::read_news(&path).await);
            file::follow(path, sender).boxed()
        }
        Source::Kubernetes(service) => {
            kubernetes::Watcher::new(service, &settings.kubernetes, sender).await?.run().boxed()
        }
        Source::Dns(query) => dns::Poller::new(query, settings.dns.clone(), sender).run().boxed(),
    };
    let task = tokio::spawn(async move {
        tokio::join!(reports, following.follow());
    });
    Ok(Discovery { views, readings, task: Some(AbortOnDropHandle::new(task)) })
}
