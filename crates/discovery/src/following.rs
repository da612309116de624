//! Task that follows a source. Its observations pass through `FlapDamper` to the `Publisher`.

use std::time::{Duration, Instant as StdInstant};

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::debug;

use crate::flap_damper::FlapDamper;
use crate::observation::Observation;
use crate::publisher::Publisher;
use crate::{ReadError, Settings, Subject};

/// Interval at which timeouts are checked.
const TICK: Duration = Duration::from_millis(250);
/// Maximum queued news of a source.
const WAITING_NEWS: usize = 16;
/// Consecutive failures that cause a warning. A single one is a broken connection.
const WORTH_A_WARNING: u32 = 2;

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
    /// The last reading is still valid.
    Holds,
    /// The source has worked for a while.
    Works,
    /// The source could not be read.
    Failed(ReadError),
}

/// Sender of a source's reports.
#[derive(Clone)]
pub(crate) struct Teller(mpsc::Sender<News>);

impl Teller {
    /// Waits while the queue is full. The receiver does not end first: it runs in the same task.
    pub(crate) async fn tell(&self, news: News) {
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
    pub(crate) fn new(publisher: Publisher, settings: &Settings) -> (Teller, Self) {
        let (teller, news) = mpsc::channel(WAITING_NEWS);
        let (subject, damper) = (settings.subject, FlapDamper::new(settings.hold));
        let following = Self { news, publisher, subject, damper, failures: 0, is_doubtful: false };
        (Teller(teller), following)
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

    fn take(&mut self, news: News) {
        match news {
            News::Seen { mut observations, until } => {
                observations
                    .iter_mut()
                    .for_each(|observation| observation.status = observation.status.of(self.subject));
                self.see(&observations, until);
            }
            News::Holds if self.is_doubtful => {}
            News::Holds => self.publisher.renewed(),
            News::Works => {
                self.failures = 0;
                if !self.is_doubtful {
                    self.publisher.renewed();
                    self.publisher.recovered();
                }
            }
            News::Failed(trouble) => {
                debug!(%trouble, "a reading failed");
                self.failures = self.failures.saturating_add(1);
                match self.failures {
                    WORTH_A_WARNING.. => self.publisher.failed(&trouble),
                    _ => self.publisher.missed(),
                }
            }
        }
    }

    fn see(&mut self, observations: &[Observation], until: Option<StdInstant>) {
        self.damper.see(observations, until, Instant::now().into_std());
        let was_doubtful = self.is_doubtful;
        self.is_doubtful = !self.damper.is_anybody_there() && self.publisher.nodes() > 0;
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
