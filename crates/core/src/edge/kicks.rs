//! Clients that an operator has put out: what they were given before does not let them in again.

use std::collections::{BTreeSet, HashMap};

use signaling_protocol::ClientId;

/// By how much servers' clocks may differ.
const CLOCKS_DIFFER_S: u64 = 60;

/// When each client was put out, in seconds since 1970. Edges judge tokens by it; nodes keep it for edges that did not hear of it.
#[derive(Debug, Default)]
pub struct KickList {
    at_by_client: HashMap<ClientId, u64>,
    by_age: BTreeSet<(u64, ClientId)>,
    forgotten: u64,
}

impl KickList {
    /// Most clients that are remembered. Past that the one that was put out longest ago is forgotten.
    pub const MOST: usize = 10_000;

    /// The latest moment at which somebody may have been put out, for who says so now, both in seconds since 1970. Later ones come of
    /// a clock that is wrong: believed, it would keep out tokens that are made until then.
    #[must_use]
    pub fn latest_believable(now: u64) -> u64 {
        now + CLOCKS_DIFFER_S
    }

    /// Remembers that a client was put out. Says whether that is news: nothing as late was known of it, and there is room.
    pub fn add(&mut self, client: &ClientId, at: u64) -> bool {
        if let Some(&known) = self.at_by_client.get(client) {
            if known >= at {
                return false;
            }
            self.by_age.remove(&(known, client.clone()));
        } else if self.by_age.len() >= Self::MOST {
            if self.by_age.first().is_some_and(|(oldest, _)| *oldest >= at) {
                return false;
            }
            if let Some((_, oldest)) = self.by_age.pop_first() {
                self.at_by_client.remove(&oldest);
                self.forgotten += 1;
            }
        }
        self.at_by_client.insert(client.clone(), at);
        self.by_age.insert((at, client.clone()));
        true
    }

    /// Whether what the client was given at `issued`, in seconds since 1970, is from before it was put out. So is what is as old to
    /// the second: the client may have had it before.
    #[must_use]
    pub fn bars(&self, client: &ClientId, issued: u64) -> bool {
        self.at_by_client.get(client).is_some_and(|at| issued <= *at)
    }

    /// All that are remembered, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (&ClientId, u64)> {
        self.by_age.iter().map(|(at, client)| (client, *at))
    }

    /// How many are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_age.len()
    }

    /// Whether nobody is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_age.is_empty()
    }

    /// How many were forgotten for want of room.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn id(name: &str) -> ClientId {
        ClientId::new(name).unwrap()
    }

    #[test]
    fn only_what_was_given_after_the_latest_kick_is_good() {
        let mut kicks = KickList::default();
        assert!(kicks.add(&id("mallory"), 900));
        assert!(kicks.add(&id("mallory"), 1_000));
        assert!(!kicks.add(&id("mallory"), 950), "no news");
        assert!(kicks.bars(&id("mallory"), 0));
        assert!(kicks.bars(&id("mallory"), 1_000));
        assert!(!kicks.bars(&id("mallory"), 1_001));
        assert!(!kicks.bars(&id("alice"), 0));
        assert_eq!(kicks.iter().collect::<Vec<_>>(), [(&id("mallory"), 1_000)]);
    }

    #[test]
    fn however_many_are_put_out_only_the_latest_are_remembered() {
        let mut kicks = KickList::default();
        for n in 0..=KickList::MOST {
            assert!(kicks.add(&id(&format!("c{n}")), 1 + n as u64));
        }
        assert_eq!((kicks.len(), kicks.forgotten()), (KickList::MOST, 1));
        assert!(!kicks.bars(&id("c0"), 0) && kicks.bars(&id("c1"), 0));
        assert!(!kicks.add(&id("c0"), 1), "older than all that there is room for");
        assert_eq!((kicks.len(), kicks.forgotten()), (KickList::MOST, 1), "it was never remembered again");
        assert!(kicks.add(&id("c1"), 1_000_000), "one that is known takes no further place");
        assert_eq!((kicks.len(), kicks.forgotten()), (KickList::MOST, 1));
    }
}
