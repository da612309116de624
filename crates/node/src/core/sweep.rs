//! What time alone brings: repeats, expiry, silent holders of contended ids.

use std::time::{Duration, Instant};

use signaling_protocol::forward::EnvelopeFate;

use super::NodeCore;
use super::outbox::Chain;

/// How often [`NodeCore::sweep`] wants to be called: repeats on request are due within a tenth of a second,
/// and messages to a client that has just moved must not wait for long.
pub const INTERVAL: Duration = Duration::from_millis(50);

impl NodeCore {
    /// Looks once at everything that waits.
    pub fn sweep(&mut self, now: Instant) {
        for parcel in self.holds.take_expired(now) {
            self.fate_of(now, &parcel, EnvelopeFate::Expired);
        }
        if std::mem::take(&mut self.stirred) {
            self.redirect(now);
        }
        let wants = |chain: &Chain| chain.is_due(now) || chain.has_hopeless(now);
        let due: Vec<_> = self.chains.iter().filter(|(_, chain)| wants(chain)).map(|(key, _)| key).collect();
        for chain_key in due {
            while let Some(sent) = self.chains.get_mut(chain_key).and_then(|chain| chain.take_hopeless(now)) {
                self.end(chain_key, &sent, false);
            }
            if self.chains.get(chain_key).is_some_and(|chain| chain.is_due(now)) {
                self.repeat(now, chain_key);
            }
        }
        self.give_up_silent_holders(now);
        self.departed.retain(|_, (_, until)| *until > now);
    }
}
