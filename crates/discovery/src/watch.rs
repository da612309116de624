//! A source that is followed, as its users have it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::file::FileFollower;
use crate::following::Following;
use crate::kubernetes::{self, KubernetesError};
use crate::publisher::{Publisher, Readings};
use crate::{Settings, Source, dns};
use signaling_core::View;

/// The handle of a followed source. When it is dropped, following ends and receivers are told that no more views come.
pub struct Discovery {
    views: watch::Sender<Arc<View>>,
    readings: watch::Receiver<Readings>,
    /// The task that follows the source; `None` for a static list.
    task: Option<AbortOnDropHandle<()>>,
}

impl Discovery {
    /// The view in use now.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.views.borrow())
    }

    /// A receiver of the view in use and of all that replace it; a slow one sees only the newest.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<View>> {
        self.views.subscribe()
    }

    /// How long ago the source was last read well, or following began; nothing for a static list.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.task.as_ref().map_or(Duration::ZERO, |_| self.readings.borrow().last_good.elapsed())
    }

    /// Waits until the source has been read once: before, an empty view says nothing. A file counts as read also where it is
    /// missing. Never ends if the handle is dropped before.
    pub fn first_reading(&self) -> impl Future<Output = ()> + use<> {
        let mut readings = self.readings.clone();
        async move {
            if readings.wait_for(|readings| readings.any).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Starts to follow a source. A static list and a file have been read when it returns; a file that is missing or bad, or a
/// source that does not answer, is no error: the view is empty until it can be read. Needs a Tokio runtime with timers and
/// I/O; metrics go to the recorder installed by then.
///
/// # Errors
/// If the source cannot be asked at all, because this process is told nothing of how to.
pub async fn watch(source: Source) -> Result<Discovery, KubernetesError> {
    watch_with(source, &Settings::default()).await
}

/// The same with other settings.
///
/// # Errors
/// As [`watch()`].
pub async fn watch_with(source: Source, settings: &Settings) -> Result<Discovery, KubernetesError> {
    let mut publisher = Publisher::new(source.to_string(), settings.subject);
    let (views, readings) = (publisher.views(), publisher.readings());
    let task = match source {
        Source::Static(view) => {
            publisher.offer(view);
            publisher.renewed();
            publisher.aged();
            return Ok(Discovery { views, readings, task: None });
        }
        Source::File(path) => {
            let mut follower = FileFollower::new(&path, publisher);
            follower.look().await;
            tokio::spawn(follower.follow())
        }
        Source::Kubernetes(service) => {
            let (teller, following) = Following::new(publisher, settings);
            let watcher = kubernetes::Watcher::new(service, &settings.kubernetes, teller).await?;
            tokio::spawn(async move {
                tokio::join!(watcher.run(), following.follow());
            })
        }
        Source::Dns(records) => {
            let (teller, following) = Following::new(publisher, settings);
            let poller = dns::Poller::new(records, settings.dns.clone(), teller);
            tokio::spawn(async move {
                tokio::join!(poller.run(), following.follow());
            })
        }
    };
    Ok(Discovery { views, readings, task: Some(AbortOnDropHandle::new(task)) })
}
