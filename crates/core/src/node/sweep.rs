//! What time alone brings: repeats, expiry, silent peers, silent holders of contended ids, and what is due in rooms.

use std::time::{Duration, Instant};

use super::NodeCore;
use super::outbox::OutboundQueue;

/// How often [`NodeCore::sweep`] wants to be called: repeats on request are due within a tenth of a second,
/// and messages to a client that has just moved must not wait for long.
pub const INTERVAL: Duration = Duration::from_millis(50);

/// Envelopes that one look sends again, or little more: the rest wait for the next, so that repeats come to 20,000 a second
/// at most and leave room for news.
const REPEATS_AT_ONCE: u64 = 1_000;

/// Clients for which a lane has no room that one sweep tries.
const REFUSED_AT_ONCE: usize = 1_000;

impl NodeCore {
    /// Looks once at everything that waits.
    pub fn sweep(&mut self, now: Instant) {
        if self.peers.sweep(now) {
            self.reroute(now);
        }
        for parcel in self.holds.take_expired(now) {
            self.counts.expired += 1;
            self.expired(now, &parcel);
        }
        if std::mem::take(&mut self.routes_dirty) {
            self.redirect(now);
        }
        self.look_at_chains(now);
        self.give_up_silent_holders(now);
        self.finish_overdue_superseded(now);
        self.give_up_expecting(now);
        self.directory.sweep(now);
        self.sweep_rooms(now);
        self.announce_waiting(REFUSED_AT_ONCE);
        if self.directory.is_time_to_announce(now) {
            self.tell_all_owners(now);
        }
    }

    fn look_at_chains(&mut self, now: Instant) {
        let wants = |chain: &OutboundQueue| chain.is_due(now) || chain.has_hopeless(now);
        let due: Vec<_> = self.chains.iter().filter(|(_, chain)| wants(chain)).map(|(key, _)| key).collect();
        let enough = self.counts.resends + REPEATS_AT_ONCE;
        for chain_key in due {
            while let Some(sent) = self.chains.get_mut(chain_key).and_then(|chain| chain.take_hopeless(now)) {
                self.end(chain_key, &sent, false);
            }
            if self.counts.resends < enough && self.chains.get(chain_key).is_some_and(|chain| chain.is_due(now)) {
                self.repeat(now, chain_key);
            }
        }
    }
}
