//! Confirms of the downlink frames of one attachment. Marks are values of `Session::delivered`.

use std::collections::VecDeque;

use signaling_wire::DownSeq;
use signaling_wire::trunk::Unwritten;

#[derive(Debug)]
struct Pending {
    down_seq: DownSeq,
    /// Delivery must have reached this mark.
    mark: u64,
    answer: Answer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// The message's frame ends at the mark.
    Written,
    /// The message was written before. Another frame ends at the mark.
    Duplicate,
    Unwritten(Unwritten),
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
    /// Adds a message that was queued. It is delivered once delivery reaches `mark`.
    pub(super) fn delivered_at(&mut self, down_seq: DownSeq, mark: u64) {
        self.pending.push_back(Pending { down_seq, mark, answer: Answer::Written });
    }

    /// Adds a message that was queued or written before, with the `mark` of that one.
    pub(super) fn duplicate(&mut self, down_seq: DownSeq, mark: u64) {
        self.pending.push_back(Pending { down_seq, mark, answer: Answer::Duplicate });
    }

    /// Adds a message that was not written.
    pub(super) fn unwritten(&mut self, down_seq: DownSeq, why: Unwritten) {
        self.pending.push_back(Pending { down_seq, mark: 0, answer: Answer::Unwritten(why) });
    }

    /// Records that delivery has reached `mark`. Returns `true` if a frame can be confirmed now.
    pub(super) fn delivered(&mut self, mark: u64) -> bool {
        while let Some(first) = self.pending.front()
            && first.mark <= mark
        {
            self.up_to = first.down_seq;
            if let Answer::Unwritten(why) = first.answer {
                self.exceptions.push((first.down_seq, why));
            }
            self.pending.pop_front();
        }
        self.up_to > self.confirmed
    }

    /// Returns `true` if a message ends at this offset of the client's output.
    pub(super) fn ends_at(&self, offset: u64) -> bool {
        self.queued().any(|end| end == offset)
    }

    /// Returns the offsets in the output at which unconfirmed messages end.
    pub(super) fn queued(&self) -> impl Iterator<Item = u64> {
        self.pending.iter().filter(|pending| pending.answer == Answer::Written).map(|pending| pending.mark)
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
        confirms.delivered_at(DownSeq(1), 100);
        confirms.unwritten(DownSeq(2), Unwritten::Gap);
        confirms.delivered_at(DownSeq(3), 200);
        assert!(!confirms.delivered(99));
        assert_eq!(confirms.take(), None);
        assert!(confirms.delivered(100));
        assert_eq!(confirms.take(), Some((DownSeq(2), vec![(DownSeq(2), Unwritten::Gap)])));
        assert_eq!(confirms.take(), None);
        assert!(confirms.delivered(200));
        assert_eq!(confirms.take(), Some((DownSeq(3), vec![])));
    }
}
