//! Who watches, and whether the collector runs: it does exactly while somebody does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Most who may watch one server at a time. Each costs some ten kilobytes a second; all see the same.
pub(crate) const MOST: usize = 32;

/// What the watchers are told: a snapshot as JSON, none before the first.
type Told = Option<Arc<str>>;

/// All who watch.
pub(crate) struct Watchers {
    told: watch::Sender<Told>,
    is_collecting: Mutex<bool>,
}

/// One who watches. Dropping it ends that.
pub(crate) struct Watcher {
    told: watch::Receiver<Told>,
}

/// Whether somebody who has joined has to start the collector.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Collector {
    Runs,
    MustBeStarted,
}

impl Watchers {
    /// Nobody.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { told: watch::Sender::new(None), is_collecting: Mutex::new(false) })
    }

    /// One more, if there is room.
    pub(crate) fn join(&self) -> Option<(Watcher, Collector)> {
        let mut is_collecting = self.lock();
        if self.told.receiver_count() >= MOST {
            return None;
        }
        let mut told = self.told.subscribe();
        // What others have been shown already is new to this one.
        told.mark_changed();
        let watcher = Watcher { told };
        let collector =
            if std::mem::replace(&mut *is_collecting, true) { Collector::Runs } else { Collector::MustBeStarted };
        Some((watcher, collector))
    }

    /// Says to the collector whether it has to end: nobody watches, and whoever comes next will start another.
    pub(crate) fn end_if_nobody_watches(&self) -> bool {
        let mut is_collecting = self.lock();
        let nobody_watches = self.told.receiver_count() == 0;
        if nobody_watches {
            *is_collecting = false;
            self.told.send_replace(None);
        }
        nobody_watches
    }

    /// The collector ends although somebody may watch.
    pub(crate) fn end(&self) {
        *self.lock() = false;
    }

    /// Returns when nobody watches.
    pub(crate) async fn nobody(&self) {
        self.told.closed().await;
    }

    /// Tells all. Who has not taken the snapshot before will never see it.
    pub(crate) fn tell(&self, snapshot: Arc<str>) {
        self.told.send_replace(Some(snapshot));
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_collecting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher {
    /// The newest snapshot, once it is another than the one before.
    pub(crate) async fn next(&mut self) -> Option<Arc<str>> {
        loop {
            self.told.changed().await.ok()?;
            if let Some(snapshot) = self.told.borrow_and_update().clone() {
                return Some(snapshot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn the_first_starts_the_collector_which_ends_with_the_last_and_is_started_again() {
        let watchers = Watchers::new();
        let (first, collector) = watchers.join().unwrap();
        assert_eq!(collector, Collector::MustBeStarted);
        let (second, collector) = watchers.join().unwrap();
        assert_eq!(collector, Collector::Runs);
        drop(first);
        assert!(!watchers.end_if_nobody_watches());
        drop(second);
        watchers.nobody().await;
        assert!(watchers.end_if_nobody_watches());
        assert_eq!(watchers.join().unwrap().1, Collector::MustBeStarted);
    }

    #[tokio::test]
    async fn a_slow_watcher_sees_only_the_newest_and_a_new_one_is_shown_the_last_at_once() {
        let watchers = Watchers::new();
        let (mut slow, _) = watchers.join().unwrap();
        watchers.tell("1".into());
        watchers.tell("2".into());
        assert_eq!(slow.next().await.as_deref(), Some("2"));
        let (mut late, _) = watchers.join().unwrap();
        assert_eq!(late.next().await.as_deref(), Some("2"));
    }

    #[tokio::test]
    async fn what_was_seen_before_nobody_watched_is_shown_to_nobody() {
        let watchers = Watchers::new();
        let (watcher, _) = watchers.join().unwrap();
        watchers.tell("old".into());
        drop(watcher);
        assert!(watchers.end_if_nobody_watches());
        let (mut watcher, _) = watchers.join().unwrap();
        watchers.tell("new".into());
        assert_eq!(watcher.next().await.as_deref(), Some("new"));
    }

    #[tokio::test]
    async fn there_is_room_for_so_many_and_again_when_one_goes() {
        let watchers = Watchers::new();
        let mut all: Vec<_> = (0..MOST).map(|_| watchers.join().unwrap()).collect();
        assert!(watchers.join().is_none());
        all.pop();
        assert!(watchers.join().is_some());
    }
}
