//! What the node sent down in one Attach, and how much of it is answered for.

use std::collections::VecDeque;

use signaling_wire::trunk::Unwritten;

#[derive(Debug)]
struct Pending {
    d: u64,
    /// Delivery must have come up to here.
    mark: u64,
    answer: Answer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// Its own frame ends at the mark.
    Written,
    /// It was written before. Whatever frame ends at the mark is another one.
    Duplicate,
    Unwritten(Unwritten),
}

/// The `Down`s of one Attach that are not confirmed yet, in order.
#[derive(Debug, Default)]
pub struct Confirms {
    pending: VecDeque<Pending>,
    confirmed: u64,
    up_to: u64,
    exceptions: Vec<(u64, Unwritten)>,
}

impl Confirms {
    /// A `Down` whose frame has just been queued: it is delivered once delivery has come up to
    /// `mark`.
    pub(super) fn delivered_at(&mut self, d: u64, mark: u64) {
        self.pending.push_back(Pending { d, mark, answer: Answer::Written });
    }

    /// A `Down` that was queued or written before: it is delivered once delivery has come up to
    /// `mark`.
    pub(super) fn duplicate(&mut self, d: u64, mark: u64) {
        self.pending.push_back(Pending { d, mark, answer: Answer::Duplicate });
    }

    /// A `Down` that will not be written.
    pub(super) fn unwritten(&mut self, d: u64, why: Unwritten) {
        self.pending.push_back(Pending { d, mark: 0, answer: Answer::Unwritten(why) });
    }

    /// Delivery has come up to `mark`. Says whether there is something new to confirm.
    pub(super) fn delivered(&mut self, mark: u64) -> bool {
        while let Some(first) = self.pending.front()
            && first.mark <= mark
        {
            self.up_to = first.d;
            if let Answer::Unwritten(why) = first.answer {
                self.exceptions.push((first.d, why));
            }
            self.pending.pop_front();
        }
        self.up_to > self.confirmed
    }

    /// Returns `true` if a `Down`'s own frame ends at this offset of the client's output.
    pub(super) fn ends_at(&self, offset: u64) -> bool {
        self.queued().any(|end| end == offset)
    }

    /// The offsets at which the frames of `Down`s end that are not confirmed.
    pub(super) fn queued(&self) -> impl Iterator<Item = u64> {
        self.pending.iter().filter(|pending| pending.answer == Answer::Written).map(|pending| pending.mark)
    }

    /// What a `Confirm` has to say now, if anything: last number and exceptions.
    pub(super) fn take(&mut self) -> Option<(u64, Vec<(u64, Unwritten)>)> {
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
        confirms.delivered_at(1, 100);
        confirms.unwritten(2, Unwritten::Gap);
        confirms.delivered_at(3, 200);
        assert!(!confirms.delivered(99));
        assert_eq!(confirms.take(), None);
        assert!(confirms.delivered(100));
        assert_eq!(confirms.take(), Some((2, vec![(2, Unwritten::Gap)])));
        assert_eq!(confirms.take(), None);
        assert!(confirms.delivered(200));
        assert_eq!(confirms.take(), Some((3, vec![])));
    }
}
