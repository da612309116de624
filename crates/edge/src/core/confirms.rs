//! What the node sent down in one Attach, and how much of it is answered for.

use std::collections::VecDeque;

use signaling_protocol::trunk::Unwritten;

#[derive(Debug)]
struct Pending {
    d: u64,
    /// Delivery must have come up to here.
    mark: u64,
    unwritten: Option<Unwritten>,
}

/// The `Down`s of one Attach that are not confirmed yet, in order.
#[derive(Debug, Default)]
pub(super) struct Confirms {
    pending: VecDeque<Pending>,
    confirmed: u64,
    up_to: u64,
    exceptions: Vec<(u64, Unwritten)>,
}

impl Confirms {
    /// A `Down` that is delivered once delivery has come up to `mark`.
    pub(super) fn delivered_at(&mut self, d: u64, mark: u64) {
        self.pending.push_back(Pending { d, mark, unwritten: None });
    }

    /// A `Down` that will not be written.
    pub(super) fn unwritten(&mut self, d: u64, why: Unwritten) {
        self.pending.push_back(Pending { d, mark: 0, unwritten: Some(why) });
    }

    /// Delivery has come up to `mark`. Says whether there is something new to confirm.
    pub(super) fn delivered(&mut self, mark: u64) -> bool {
        while let Some(first) = self.pending.front()
            && first.mark <= mark
        {
            self.up_to = first.d;
            if let Some(why) = first.unwritten {
                self.exceptions.push((first.d, why));
            }
            self.pending.pop_front();
        }
        self.up_to > self.confirmed
    }

    /// Whether a `Down` is written once the client's output has been written up to just here.
    pub(super) fn ends_at(&self, mark: u64) -> bool {
        self.pending.iter().any(|pending| pending.mark == mark && pending.unwritten.is_none())
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
