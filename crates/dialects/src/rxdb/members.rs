//! Members of one room, and the `joined` messages that list them: at most one in 200 ms.

use std::time::{Duration, Instant};

use super::peer_id::PeerId;

/// Maximum members that a client is sent. Further ones are unknown to it.
const MAX_MEMBERS: usize = 500;
/// Minimum time between two lists.
const LIST_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
pub(super) struct Members {
    /// Present members in order of joining.
    present: Vec<PeerId>,
    /// Members in the last list that the client was sent.
    pub(super) listed: Vec<PeerId>,
    /// Time of that list. `None`: there was none.
    last: Option<Instant>,
    /// Time of the next list. `None`: nothing has changed.
    pub(super) due: Option<Instant>,
}

impl Members {
    /// Replaces all members by the first 500. The client itself is always one of them.
    pub(super) fn replace(&mut self, now: Instant, own: PeerId, members: impl Iterator<Item = PeerId>) {
        self.present.clear();
        self.present.extend(members.take(MAX_MEMBERS));
        if !self.present.contains(&own) {
            self.present.truncate(MAX_MEMBERS - 1);
            self.present.push(own);
        }
        self.schedule(now);
    }

    /// Removes members, then adds others, up to 500.
    pub(super) fn change(
        &mut self,
        now: Instant,
        joined: impl Iterator<Item = PeerId>,
        left: impl Iterator<Item = PeerId>,
    ) {
        for peer in left {
            self.present.retain(|present| *present != peer);
        }
        for peer in joined {
            if self.present.len() < MAX_MEMBERS && !self.present.contains(&peer) {
                self.present.push(peer);
            }
        }
        self.schedule(now);
    }

    /// Returns the `joined` frame for the client. `None`: none is due, or the list is the last one.
    pub(super) fn next_list(&mut self, now: Instant) -> Option<String> {
        self.due.filter(|due| *due <= now)?;
        self.due = None;
        if self.present == self.listed {
            return None;
        }
        self.last = Some(now);
        self.listed.clone_from(&self.present);
        let ids: Vec<String> = self.listed.iter().map(|peer| format!("\"{}\"", peer.as_str())).collect();
        Some(format!(r#"{{"type":"joined","otherPeerIds":[{}]}}"#, ids.join(",")))
    }

    pub(super) fn bytes(&self) -> usize {
        (self.present.len() + self.listed.len()) * size_of::<PeerId>()
    }

    fn schedule(&mut self, now: Instant) {
        let earliest = self.last.map_or(now, |last| (last + LIST_INTERVAL).max(now));
        self.due.get_or_insert(earliest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(range: std::ops::Range<usize>) -> impl Iterator<Item = PeerId> {
        range.map(numbered)
    }

    fn numbered(n: usize) -> PeerId {
        let letters: String = format!("{n:012}").bytes().map(|digit| char::from(digit - b'0' + b'a')).collect();
        PeerId::parse(&letters).unwrap()
    }

    #[test]
    fn list_has_500_members_with_the_own_id() {
        let (mut members, now, own) = (Members::default(), Instant::now(), numbered(9999));
        members.replace(now, own, ids(0..600));
        members.change(now, ids(600..700), std::iter::empty());
        assert!(members.next_list(now).is_some());
        assert_eq!((members.listed.len(), members.listed.last()), (500, Some(&own)));
    }
}
