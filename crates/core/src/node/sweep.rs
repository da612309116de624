//! Periodic work on a timer of the shell: retransmissions, expiry, silent peers and holders, rooms.

use std::time::{Duration, Instant};

use signaling_rooms::CHECKS_PER_SWEEP;
use signaling_wire::forward::EnvelopeOutcome;

use super::NodeCore;

/// Interval of calls of [`NodeCore::sweep`]: half of the minimum interval of retransmissions. It
/// also bounds the delay of pending messages to clients that have just moved.
pub const SWEEP_INTERVAL: Duration = Duration::from_millis(50);
/// Interval of calls of [`NodeCore::sweep`] while [`NodeCore::is_idle`] returns `true`.
pub const IDLE_SWEEP_INTERVAL: Duration = Duration::from_millis(250);

/// Approximate maximum of retransmissions in one sweep: 20,000 messages/s leave room for new ones.
const RETRANSMISSIONS_PER_SWEEP: u64 = 1_000;

impl NodeCore {
    /// Does all periodic work that is due. Limits per call leave the rest for the next one. A call
    /// later than [`Rules::max_sweep_interval`](super::Rules) leaves all work, unless the last one
    /// did: the process was paused, and its input may be unread.
    pub fn sweep(&mut self, now: Instant) {
        if self.is_sweep_late(now) {
            return;
        }
        self.end_full_trunks(now);
        self.trunks.beat(now, &self.counter);
        if self.peers.sweep(now) {
            self.reroute(now);
        }
        for message in self.custody.holds.take_expired(now) {
            self.counts.expired += 1;
            self.give_up(now, &message, EnvelopeOutcome::Expired);
        }
        if std::mem::take(&mut self.custody.routes_dirty) {
            self.redirect(now);
        }
        self.sweep_queues(now);
        self.give_up_silent_holders(now);
        for former in self.directory.overdue_superseded(now) {
            self.finish_superseded(now, former);
        }
        self.end_overdue_resumes(now);
        if self.directory.sweep(now) {
            self.custody.routes_dirty = true;
        }
        let detached = self.directory.take_detached(CHECKS_PER_SWEEP);
        self.with_rooms(now, |rooms| rooms.sweep(&detached));
        match self.directory.is_announcement_due(now) {
            true => self.send_all_locations(now),
            false => self.announce_waiting(),
        }
    }

    /// Discounts a pause since the last sweep. Returns `true` after one, but not twice in a row: a
    /// starved process works too.
    fn is_sweep_late(&mut self, now: Instant) -> bool {
        let interval = self.swept_at.replace(now).map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        let pause = interval.saturating_sub(self.settings.rules.max_sweep_interval);
        if !pause.is_zero() {
            self.peers.discount(now, pause);
        }
        self.was_sweep_late = !pause.is_zero() && !self.was_sweep_late;
        self.was_sweep_late
    }

    /// Ends custody of overdue messages, and retransmits due queues.
    fn sweep_queues(&mut self, now: Instant) {
        let enough = self.counts.retransmissions + RETRANSMISSIONS_PER_SWEEP;
        for queue in self.custody.queues_where(|queue| queue.is_due(now) || queue.has_overdue(now)) {
            while let Some(sent) = self.custody.queues.get_mut(queue).and_then(|queue| queue.take_overdue(now)) {
                self.end(queue, &sent, false);
            }
            if self.counts.retransmissions < enough
                && self.custody.queues.get(queue).is_some_and(|queue| queue.is_due(now))
            {
                self.retransmit(now, queue);
            }
        }
    }
}
