//! Confirms of the downlink frames of one attachment. `inputs` adds frames, and the link's next
//! batch takes the confirms. Marks are values of `Session::delivered`.

use std::collections::VecDeque;

use signaling_wire::DownSeq;
use signaling_wire::trunk::Unwritten;

use super::deduplicator::DuplicateCheck;

#[derive(Debug)]
struct Pending {
    down_seq: DownSeq,
    /// Delivery must have reached this mark. The frame of a new message ends there.
    mark: u64,
    verdict: DuplicateCheck,
}

/// The downlink frames of one attachment without a confirm, in order.
#[derive(Debug, Default)]
pub(super) struct Confirms {
    pending: VecDeque<Pending>,
    confirmed: DownSeq,
    up_to: DownSeq,
    exceptions: Vec<(DownSeq, Unwritten)>,
}

impl Confirms {
    /// Adds a frame with the verdict on its message. The message, or the one that it duplicates, is
    /// delivered once delivery reaches `mark`. A frame that is not written needs no delivery.
    pub(super) fn add(&mut self, down_seq: DownSeq, mark: u64, verdict: DuplicateCheck) {
        let mark = if matches!(verdict, DuplicateCheck::Not(_)) { 0 } else { mark };
        self.pending.push_back(Pending { down_seq, mark, verdict });
    }

    /// Records that delivery has reached `mark`. Returns `true` if a frame can be confirmed now.
    pub(super) fn delivered(&mut self, mark: u64) -> bool {
        while let Some(first) = self.pending.front()
            && first.mark <= mark
        {
            self.up_to = first.down_seq;
            if let DuplicateCheck::Not(why) = first.verdict {
                self.exceptions.push((first.down_seq, why));
            }
            self.pending.pop_front();
        }
        self.up_to > self.confirmed
    }

    /// Returns the offsets in the output at which unconfirmed messages end.
    pub(super) fn queued(&self) -> impl Iterator<Item = u64> {
        self.pending.iter().filter(|pending| pending.verdict == DuplicateCheck::Write).map(|pending| pending.mark)
    }

    /// Takes the content of the next `Confirm`: last number and exceptions. `None`: nothing new.
    pub(super) fn take(&mut self) -> Option<(DownSeq, Vec<(DownSeq, Unwritten)>)> {
        if self.up_to == self.confirmed {
            return None;
        }
        self.confirmed = self.up_to;
        Some((self.up_to, std::mem::take(&mut self.exceptions)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_confirmed_before_it_is_delivered() {
        let mut confirms = Confirms::default();
        confirms.add(DownSeq(1), 100, DuplicateCheck::Write);
        confirms.add(DownSeq(2), 100, DuplicateCheck::Not(Unwritten::Gap));
        confirms.add(DownSeq(3), 200, DuplicateCheck::Write);
        assert!(!confirms.delivered(99));
        assert_eq!(confirms.take(), None);
        assert!(confirms.delivered(100));
        assert_eq!(confirms.take(), Some((DownSeq(2), vec![(DownSeq(2), Unwritten::Gap)])));
        assert_eq!(confirms.take(), None);
        assert!(confirms.delivered(200));
        assert_eq!(confirms.take(), Some((DownSeq(3), vec![])));
    }
}
