//! The task that follows a source.
//!
//! A file is read every [`POLL`]: that works on every filesystem and with every way of writing, renames included. A reading
//! goes to `verdict::judge`; what it publishes reaches all receivers as one `Arc`, and what it keeps is logged once per
//! change of state.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use crate::metrics::Metrics;
use crate::verdict::{Verdict, judge};
use crate::{Source, Trouble, View, file};

/// How often a file is read.
pub const POLL: Duration = Duration::from_millis(100);

/// The handle of a followed source. When it is dropped, following ends and receivers are told that no more views come.
pub struct Discovery {
    views: watch::Sender<Arc<View>>,
    following: Option<(Freshness, AbortOnDropHandle<()>)>,
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
        self.following.as_ref().map_or(Duration::ZERO, |(freshness, _)| freshness.age())
    }
}

/// Starts to follow a source, and returns after its first reading. A file that is missing or bad is no error: the view is
/// empty until it can be read. Needs a Tokio runtime with timers; metrics go to the recorder installed by then.
pub async fn watch(source: Source) -> Discovery {
    let metrics = Metrics::register();
    match source {
        Source::Static(view) => {
            metrics.published(&view);
            metrics.aged(Duration::ZERO);
            Discovery { views: watch::Sender::new(Arc::new(view)), following: None }
        }
        Source::File(path) => {
            let views = watch::Sender::new(Arc::default());
            metrics.published(&views.borrow());
            let freshness = Freshness::start();
            let mut follower = Follower {
                path: path.into(),
                views: views.clone(),
                freshness: freshness.clone(),
                metrics,
                trouble: None,
            };
            follower.look().await;
            let task = AbortOnDropHandle::new(tokio::spawn(follower.follow()));
            Discovery { views, following: Some((freshness, task)) }
        }
    }
}

struct Follower {
    path: Arc<Path>,
    views: watch::Sender<Arc<View>>,
    freshness: Freshness,
    metrics: Metrics,
    /// What the last reading was like, so that only a change is logged.
    trouble: Option<Trouble>,
}

impl Follower {
    async fn follow(mut self) {
        let mut ticks = interval(POLL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.look().await;
        }
    }

    async fn look(&mut self) {
        let path = Arc::clone(&self.path);
        let reading = tokio::task::spawn_blocking(move || file::read(&path))
            .await
            .unwrap_or_else(|error| Err(Trouble::Unreadable(error.to_string())));
        let last = Arc::clone(&self.views.borrow());
        match judge(&last, reading) {
            Verdict::Publish(view) => {
                self.read_well();
                self.publish(&last, view);
            }
            Verdict::Unchanged => self.read_well(),
            Verdict::Keep(trouble) => self.failed(trouble, &last),
        }
        self.metrics.aged(self.freshness.age());
    }

    fn publish(&self, last: &View, view: View) {
        let diff = last.diff(&view);
        info!(
            nodes = view.len(),
            joined = diff.joined.len(),
            left = diff.left.len(),
            changed = diff.changed.len(),
            "the view has changed"
        );
        self.metrics.published(&view);
        self.views.send_replace(Arc::new(view));
    }

    fn read_well(&mut self) {
        self.freshness.renew();
        if self.trouble.take().is_some() {
            info!(path = %self.path.display(), "discovery reads its file well again");
        }
    }

    fn failed(&mut self, trouble: Trouble, last: &View) {
        self.metrics.failed();
        if !self.trouble.as_ref().is_some_and(|before| before.is_like(&trouble)) {
            let path = self.path.display();
            warn!(%path, %trouble, nodes = last.len(), "discovery keeps the last view");
        }
        self.trouble = Some(trouble);
    }
}

/// When the source was last read well, shared by the task and the handle.
#[derive(Clone)]
struct Freshness {
    start: Instant,
    /// Milliseconds from `start`.
    read_at: Arc<AtomicU64>,
}

impl Freshness {
    fn start() -> Self {
        Self { start: Instant::now(), read_at: Arc::default() }
    }

    fn renew(&self) {
        self.read_at.store(millis(self.start.elapsed()), Ordering::Relaxed);
    }

    fn age(&self) -> Duration {
        self.start.elapsed().saturating_sub(Duration::from_millis(self.read_at.load(Ordering::Relaxed)))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
