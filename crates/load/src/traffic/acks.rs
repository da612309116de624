use std::collections::HashMap;

use serde::Serialize;

/// The messages whose senders asked for an `ack`, by the id they gave it, and what they were told.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    asked_by_id: HashMap<u64, Asked>,
    open: u64,
    repeated: u64,
    stray: u64,
}

/// A message of which the sender wants to know what became.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    /// Who asked.
    pub(crate) sender: usize,
    /// Whom the message is for.
    pub(crate) receiver: usize,
    /// Its number in their pair.
    pub(crate) number: u64,
}

#[derive(Debug)]
struct Asked {
    question: Question,
    told: Option<Told>,
}

/// What a sender was told of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// `ack`: it was delivered.
    Delivered,
    /// `error`: it was not, as far as is known.
    Failed,
}

/// How the answers agree with what arrived. The last four ought to be 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct AckTotals {
    /// Messages that asked.
    pub(crate) asked: u64,
    /// Answered by an `ack`.
    pub(crate) acked: u64,
    /// Answered by an `error`.
    pub(crate) failed: u64,
    /// Not answered.
    pub(crate) unanswered: u64,
    /// Answered by an `ack` though they never arrived.
    pub(crate) untrue: u64,
    /// Further answers to a message that had one.
    pub(crate) repeated: u64,
    /// Answers to what nobody asked, or somebody else did.
    pub(crate) stray: u64,
}

impl Acks {
    /// A message was sent with this id, which no other has.
    pub(crate) fn asked(&mut self, id: u64, question: Question) {
        self.asked_by_id.insert(id, Asked { question, told: None });
        self.open += 1;
    }

    /// `sender` was told what became of the message of this id.
    pub(crate) fn told(&mut self, sender: usize, id: u64, told: Told) {
        match self.asked_by_id.get_mut(&id).filter(|asked| asked.question.sender == sender) {
            None => self.stray += 1,
            Some(Asked { told: Some(_), .. }) => self.repeated += 1,
            Some(asked) => {
                asked.told = Some(told);
                self.open -= 1;
            }
        }
    }

    /// Questions without an answer yet.
    pub(crate) fn open(&self) -> u64 {
        self.open
    }

    /// Closes the books: compares what was told with what has arrived.
    pub(crate) fn totals(&self, has_arrived: impl Fn(&Question) -> bool) -> AckTotals {
        let mut totals = AckTotals {
            asked: self.asked_by_id.len() as u64,
            unanswered: self.open,
            repeated: self.repeated,
            stray: self.stray,
            ..AckTotals::default()
        };
        for asked in self.asked_by_id.values() {
            match asked.told {
                Some(Told::Delivered) => {
                    totals.acked += 1;
                    totals.untrue += u64::from(!has_arrived(&asked.question));
                }
                Some(Told::Failed) => totals.failed += 1,
                None => {}
            }
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(ids: &[u64]) -> Acks {
        let mut acks = Acks::default();
        for id in ids {
            acks.asked(*id, Question { sender: 0, receiver: 1, number: *id });
        }
        acks
    }

    #[test]
    fn each_question_wants_one_answer() {
        let mut acks = asked(&[1, 2, 3]);
        acks.told(0, 1, Told::Delivered);
        acks.told(0, 2, Told::Failed);

        let expected = AckTotals { asked: 3, acked: 1, failed: 1, unanswered: 1, ..AckTotals::default() };
        assert_eq!(acks.open(), 1);
        assert_eq!(acks.totals(|_| true), expected);
    }

    #[test]
    fn an_ack_for_what_never_arrived_is_untrue_and_an_error_for_it_is_not() {
        let mut acks = asked(&[1, 2]);
        acks.told(0, 1, Told::Delivered);
        acks.told(0, 2, Told::Failed);

        assert_eq!(acks.totals(|_| false).untrue, 1);
        assert_eq!(acks.totals(|question| question.number == 1).untrue, 0);
    }

    #[test]
    fn a_second_answer_is_a_repeat_and_the_first_one_counts() {
        let mut acks = asked(&[1]);
        acks.told(0, 1, Told::Delivered);
        acks.told(0, 1, Told::Failed);

        assert_eq!(acks.totals(|_| true), AckTotals { asked: 1, acked: 1, repeated: 1, ..AckTotals::default() });
    }

    #[test]
    fn an_answer_to_nobodys_question_or_to_somebody_elses_is_stray() {
        let mut acks = asked(&[1]);
        acks.told(0, 9, Told::Delivered);
        acks.told(1, 1, Told::Delivered);

        assert_eq!(acks.totals(|_| true), AckTotals { asked: 1, unanswered: 1, stray: 2, ..AckTotals::default() });
    }
}
