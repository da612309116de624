//! One trunk that is up: when its link is carried, and what its opener must hear of.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use signaling_edge::core::{EdgeCore, FromNode, LinkKey, Wants};
use signaling_server::trunk::{Opened, TrunkEnd};
use signaling_server::wake::COMPANY;
use tokio::sync::Notify;

/// Carries a link over its trunk's socket.
pub(crate) struct Carrier {
    socket: Opened,
    told: Rc<Told>,
    wait: Wait,
    is_over: bool,
}

/// The wait of what a link wants to be carried.
#[derive(Debug, Default)]
struct Wait {
    since: Option<Instant>,
}

impl Wait {
    /// Whether the link must be carried now. Confirms wait for company, and all that is `held` for a node that would not hear it: for
    /// 2 ms at most.
    fn is_over(&mut self, now: Instant, wants: Wants, held: bool) -> bool {
        if wants == Wants::Nothing {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        wants == Wants::Now && !held || now.saturating_duration_since(since) >= COMPANY
    }
}

/// What has become of a trunk, for the task that keeps it open.
#[derive(Default)]
pub(crate) struct Told {
    said: Cell<FromNode>,
    end: RefCell<Option<TrunkEnd>>,
    news: Notify,
}

impl Told {
    /// Returns what the node has said of itself since this was asked last; or how the trunk has ended. Safe to cancel.
    pub(crate) async fn news(&self) -> Result<FromNode, TrunkEnd> {
        loop {
            let said = self.said.take();
            if said != FromNode::default() {
                return Ok(said);
            }
            if let Some(end) = self.end.take() {
                return Err(end);
            }
            self.news.notified().await;
        }
    }
}

impl Carrier {
    pub(crate) fn new(socket: Opened, told: Rc<Told>) -> Self {
        Self { socket, told, wait: Wait::default(), is_over: false }
    }

    /// Whether the link must be carried now. If it is not yet, it is noted that it waits. A balancer that `gathers` input looks again
    /// soon, and holds what the node would not hear before that.
    pub(crate) fn is_due(&mut self, now: Instant, core: &EdgeCore, link: LinkKey, gathers: bool) -> bool {
        let wants = if self.is_over { Wants::Nothing } else { core.wants(link) };
        self.wait.is_over(now, wants, gathers && core.is_deaf(now, link)) && self.socket.is_free()
    }

    /// When the link must be carried at the latest, if something waits that can be.
    pub(crate) fn waits_until(&self) -> Option<Instant> {
        self.wait.since.filter(|_| self.socket.is_free()).map(|since| since + COMPANY)
    }

    /// Writes what the link wants to be carried, as much as the socket takes.
    pub(crate) fn carry(&mut self, core: &mut EdgeCore, link: LinkKey) {
        self.wait = Wait::default();
        while self.socket.is_free() && core.wants(link) != Wants::Nothing {
            let batch = core.take_batch(link);
            if batch.is_empty() {
                return;
            }
            if let Err(end) = self.socket.write(batch) {
                return self.end(end);
            }
        }
    }

    /// The socket can be read or written: see [`signaling_edge::shell::Backend::ready`].
    pub(crate) fn ready(&mut self, now: Instant, core: &mut EdgeCore, link: LinkKey, ends: bool) -> bool {
        if self.is_over {
            return false;
        }
        let told = Rc::clone(&self.told);
        let take_in = |frames: &[u8]| {
            // Of one that was given up nobody wants to hear.
            if core.has_link(link) {
                let said = core.link_frames(now, link, frames).map_err(|error| error.to_string())?;
                if said != FromNode::default() {
                    told.said.set(said);
                    told.news.notify_one();
                }
            }
            Ok(())
        };
        match self.socket.ready(ends).and_then(|()| self.socket.read(now, take_in)) {
            Ok(more) => more,
            Err(end) => {
                self.end(end);
                false
            }
        }
    }

    /// Looks for silence: see [`Opened::look`].
    pub(crate) fn look(&mut self, now: Instant) {
        if !self.is_over
            && let Err(end) = self.socket.look(now)
        {
            self.end(end);
        }
    }

    /// Closes it: what it carries has gone elsewhere.
    pub(crate) fn give_up(&mut self) {
        if !self.is_over {
            self.socket.close();
            self.end(TrunkEnd::Given);
        }
    }

    fn end(&mut self, end: TrunkEnd) {
        self.is_over = true;
        self.socket.ended(&end);
        self.told.end.replace(Some(end));
        self.told.news.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_not_wait_does_not_and_all_else_waits_for_two_milliseconds() {
        let start = Instant::now();
        let late = start + COMPANY;
        assert!(Wait::default().is_over(start, Wants::Now, false));
        for (wants, held) in [(Wants::Soon, false), (Wants::Now, true)] {
            let mut wait = Wait::default();
            assert!(!wait.is_over(start, wants, held) && !wait.is_over(late - COMPANY / 2, wants, held));
            assert!(wait.is_over(late, wants, held));
        }
    }

    #[test]
    fn a_wait_begins_when_something_is_wanted_after_nothing_was() {
        let (start, mut wait) = (Instant::now(), Wait::default());
        assert!(!wait.is_over(start, Wants::Soon, false));
        assert!(!wait.is_over(start + COMPANY, Wants::Nothing, false) && wait.since.is_none());
        assert!(!wait.is_over(start + COMPANY, Wants::Soon, false));
        assert!(wait.is_over(start + COMPANY, Wants::Now, false), "company has come");
    }
}
