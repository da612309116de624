//! The task that follows a file.
//!
//! A file is read every [`POLL`]: that works on every filesystem and with every way of writing, renames included.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::publisher::Publisher;
use crate::{ReadError, file};

/// How often a file is read.
const POLL: Duration = Duration::from_millis(100);

pub(crate) struct FileFollower {
    path: Arc<Path>,
    publisher: Publisher,
}

impl FileFollower {
    pub(crate) fn new(path: &Path, publisher: Publisher) -> Self {
        Self { path: path.into(), publisher }
    }

    pub(crate) async fn follow(mut self) {
        let mut ticks = interval(POLL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.look().await;
        }
    }

    pub(crate) async fn look(&mut self) {
        let path = Arc::clone(&self.path);
        let reading = tokio::task::spawn_blocking(move || file::read(&path))
            .await
            .unwrap_or_else(|error| Err(ReadError::Unreadable(error.to_string())));
        match reading {
            Ok(view) => {
                if self.publisher.offer(view) {
                    self.publisher.renewed();
                    self.publisher.recovered();
                }
            }
            Err(trouble) => self.publisher.failed(&trouble),
        }
        self.publisher.settled();
        self.publisher.aged();
    }
}
