//! Passes a source's observations through `FlapDamper` to the `Publisher`. `watch` starts the task.

use std::time::{Duration, Instant as StdInstant};

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tracing::debug;

use crate::flap_damper::{FlapDamper, Observation};
use crate::publisher::Publisher;
use crate::{ReadError, Settings, Subject};
use signaling_membership::View;

/// Time without news after which hold times are checked. A file is read more often.
const TICK: Duration = Duration::from_millis(300);
const MAX_QUEUED_NEWS: usize = 16;
/// Consecutive failures that cause a warning. A single one is a broken connection.
const FAILURES_FOR_WARNING: u32 = 2;

#[derive(Debug)]
pub(crate) enum News {
    /// All servers that the source lists now, with distinct ids.
    Seen {
        /// If all are unready or absent, the reading is doubtful.
        observations: Vec<Observation>,
        /// Time until which the source may return this reading again. `None`: reports each change.
        until: Option<StdInstant>,
    },
    /// The whole view of a source that needs no damping, or the error of its reading.
    View(Result<View, ReadError>),
    StillValid,
    /// The source works: a query was answered, or a watch has run for a while. Only this resets the
    /// count of failures: a source that can list but not watch reports `Seen` between failures.
    Working,
    /// Reading failed. After the first failure each kind is logged once until `Working`.
    Failed(ReadError),
}

/// Sender of a source's reports.
pub(crate) struct NewsSender(mpsc::Sender<News>);

impl NewsSender {
    /// Queues a report. Waits while 16 are queued. Drops it if the receiver is gone.
    pub(crate) async fn send(&self, news: News) {
        let _ = self.0.send(news).await;
    }
}

/// Receiver of a source's reports, and the state of its reading.
pub(crate) struct Following {
    news: mpsc::Receiver<News>,
    publisher: Publisher,
    subject: Subject,
    damper: FlapDamper,
    failures: u32,
    /// `true` if the last reading had no usable server though the view has nodes: no good reading.
    is_doubtful: bool,
}

impl Following {
    pub(crate) fn new(publisher: Publisher, settings: &Settings) -> (NewsSender, Self) {
        let (sender, news) = mpsc::channel(MAX_QUEUED_NEWS);
        let (subject, damper) = (settings.subject, FlapDamper::new(settings.hold));
        let following = Self { news, publisher, subject, damper, failures: 0, is_doubtful: false };
        (NewsSender(sender), following)
    }

    /// Applies reports until the sender is dropped. Publishes the view of `FlapDamper`, unless
    /// empty, after each report and after 300 ms without one.
    pub(crate) async fn follow(mut self) {
        loop {
            match timeout(TICK, self.news.recv()).await {
                Ok(Some(news)) => self.apply(news),
                Ok(None) => return,
                Err(_) => {}
            }
            self.damper.tick(Instant::now().into_std());
            // An empty view is doubtful. That was logged when it was read.
            let view = self.damper.view();
            if !view.is_empty() {
                self.publisher.offer(view);
            }
            self.publisher.update_age();
        }
    }

    /// Applies a report. Publishes a view only for [`News::View`].
    pub(crate) fn apply(&mut self, news: News) {
        match news {
            News::Seen { mut observations, until } => {
                observations
                    .iter_mut()
                    .for_each(|observation| observation.status = observation.status.for_subject(self.subject));
                self.apply_observations(&observations, until);
            }
            News::View(reading) => {
                match reading.map(|view| self.publisher.offer(view)) {
                    Ok(true) => {
                        self.publisher.record_good_reading();
                        self.publisher.log_recovery();
                    }
                    Ok(false) => {}
                    Err(error) => self.publisher.record_failure(&error),
                }
                self.publisher.record_reading();
            }
            News::StillValid if self.is_doubtful => {}
            News::StillValid => self.publisher.record_good_reading(),
            News::Working => {
                self.failures = 0;
                if !self.is_doubtful {
                    self.publisher.record_good_reading();
                    self.publisher.log_recovery();
                }
            }
            News::Failed(error) => {
                debug!(%error, "reading failed");
                self.failures = self.failures.saturating_add(1);
                match self.failures {
                    FAILURES_FOR_WARNING.. => self.publisher.record_failure(&error),
                    _ => self.publisher.count_failure(),
                }
            }
        }
    }

    fn apply_observations(&mut self, observations: &[Observation], until: Option<StdInstant>) {
        self.damper.apply(observations, until, Instant::now().into_std());
        let was_doubtful = self.is_doubtful;
        self.is_doubtful = !self.damper.has_present_server() && !self.publisher.views.borrow().is_empty();
        if self.is_doubtful {
            self.publisher.record_failure(&ReadError::SuddenlyEmpty);
            return;
        }
        self.publisher.record_good_reading();
        if was_doubtful && self.failures == 0 {
            self.publisher.log_recovery();
        }
    }
}
