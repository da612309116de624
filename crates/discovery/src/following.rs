//! Task that follows a source. Its observations pass through `FlapDamper` to the `Publisher`.

use std::time::{Duration, Instant as StdInstant};

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::debug;

use crate::flap_damper::FlapDamper;
use crate::observation::Observation;
use crate::publisher::Publisher;
use crate::{ReadError, Settings, Subject};
use signaling_core::View;

/// Interval at which timeouts are checked.
const TICK: Duration = Duration::from_millis(250);
/// Maximum queued news of a source.
const MAX_QUEUED_NEWS: usize = 16;
/// Consecutive failures that cause a warning. A single one is a broken connection.
const FAILURES_FOR_WARNING: u32 = 2;

/// Report of a source.
#[derive(Debug)]
pub(crate) enum News {
    /// All servers that the source lists now.
    Seen {
        observations: Vec<Observation>,
        /// End of the time in which the source may repeat this reading. `None` if it reports each
        /// change.
        until: Option<StdInstant>,
    },
    /// The whole view, as read from a source that needs no damping.
    View(Result<View, ReadError>),
    /// The last reading is still valid.
    StillValid,
    /// The source has worked for a while.
    Working,
    /// The source could not be read.
    Failed(ReadError),
}

/// Sender of a source's reports.
pub(crate) struct NewsSender(mpsc::Sender<News>);

impl NewsSender {
    /// Waits while the queue is full. The receiver does not end first: it runs in the same task.
    pub(crate) async fn send(&self, news: News) {
        let _ = self.0.send(news).await;
    }
}

pub(crate) struct Following {
    news: mpsc::Receiver<News>,
    publisher: Publisher,
    subject: Subject,
    damper: FlapDamper,
    failures: u32,
    /// `true` if the last reading was empty while servers were known. It does not count as a good
    /// reading.
    is_doubtful: bool,
}

impl Following {
    pub(crate) fn new(publisher: Publisher, settings: &Settings) -> (NewsSender, Self) {
        let (sender, news) = mpsc::channel(MAX_QUEUED_NEWS);
        let (subject, damper) = (settings.subject, FlapDamper::new(settings.hold));
        let following = Self { news, publisher, subject, damper, failures: 0, is_doubtful: false };
        (NewsSender(sender), following)
    }

    /// Runs until the source ends.
    pub(crate) async fn follow(mut self) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                news = self.news.recv() => match news {
                    Some(news) => self.take(news),
                    None => return,
                },
                _ = ticks.tick() => {}
            }
            self.damper.settle(Instant::now().into_std());
            // An empty view is doubtful. That was logged when it was read.
            let view = self.damper.view();
            if !view.is_empty() {
                self.publisher.offer(view);
            }
            self.publisher.aged();
        }
    }

    /// Applies a report.
    pub(crate) fn take(&mut self, news: News) {
        match news {
            News::Seen { mut observations, until } => {
                observations
                    .iter_mut()
                    .for_each(|observation| observation.status = observation.status.of(self.subject));
                self.see(&observations, until);
            }
            News::View(reading) => {
                match reading.map(|view| self.publisher.offer(view)) {
                    Ok(true) => {
                        self.publisher.renewed();
                        self.publisher.recovered();
                    }
                    Ok(false) => {}
                    Err(error) => self.publisher.failed(&error),
                }
                self.publisher.settled();
            }
            News::StillValid if self.is_doubtful => {}
            News::StillValid => self.publisher.renewed(),
            News::Working => {
                self.failures = 0;
                if !self.is_doubtful {
                    self.publisher.renewed();
                    self.publisher.recovered();
                }
            }
            News::Failed(error) => {
                debug!(%error, "reading failed");
                self.failures = self.failures.saturating_add(1);
                match self.failures {
                    FAILURES_FOR_WARNING.. => self.publisher.failed(&error),
                    _ => self.publisher.missed(),
                }
            }
        }
    }

    fn see(&mut self, observations: &[Observation], until: Option<StdInstant>) {
        self.damper.see(observations, until, Instant::now().into_std());
        let was_doubtful = self.is_doubtful;
        self.is_doubtful = !self.damper.has_present_server() && self.publisher.nodes() > 0;
        if self.is_doubtful {
            self.publisher.failed(&ReadError::SuddenlyEmpty);
            return;
        }
        self.publisher.renewed();
        if was_doubtful && self.failures == 0 {
            self.publisher.recovered();
        }
    }
}
