use std::collections::HashMap;

use serde::Serialize;

use crate::latency::Latencies;

/// Messages whose senders asked for an `ack`, by id, with the result.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    asked_by_id: HashMap<u64, Asked>,
    last_id: u64,
    open: u64,
    repeated: u64,
    stray: u64,
}

/// A message that asked for an `ack`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    /// Number of the sending client.
    pub(crate) sender: usize,
    /// Number of the receiving client.
    pub(crate) receiver: usize,
    /// Number of the message in its pair.
    pub(crate) number: u64,
    /// Time at which it was due, in microseconds.
    pub(crate) time_us: u64,
}

#[derive(Debug)]
struct Asked {
    question: Question,
    answer: Option<Answer>,
}

#[derive(Clone, Copy, Debug)]
struct Answer {
    result: AckResult,
    after_us: u32,
}

/// Answer to a message that asked for an `ack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckResult {
    /// `ack`: delivered.
    Delivered,
    /// `error`: not delivered, as far as is known.
    Failed,
}

/// How the answers agree with what arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AckTotals {
    /// Messages that asked.
    pub asked: u64,
    /// Answered by an `ack`.
    pub acked: u64,
    /// Answered by an `error`.
    pub failed: u64,
    /// Not answered. This field and the next three have to be 0.
    pub unanswered: u64,
    /// Answered by an `ack` though they never arrived.
    pub untrue: u64,
    /// Further answers to a message that had one.
    pub repeated: u64,
    /// Answers to no message of this client.
    pub stray: u64,
}

impl Acks {
    /// An id that no other message has.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// A message was sent with this id, which no other has.
    pub(crate) fn asked(&mut self, id: u64, question: Question) {
        self.asked_by_id.insert(id, Asked { question, answer: None });
        self.open += 1;
    }

    /// Adds the answer that `sender` received for this id.
    pub(crate) fn answered(&mut self, sender: usize, id: u64, result: AckResult, now_us: u64) {
        match self.asked_by_id.get_mut(&id).filter(|asked| asked.question.sender == sender) {
            None => self.stray += 1,
            Some(Asked { answer: Some(_), .. }) => self.repeated += 1,
            Some(asked) => {
                let after_us = now_us.saturating_sub(asked.question.time_us);
                asked.answer = Some(Answer { result, after_us: u32::try_from(after_us).unwrap_or(u32::MAX) });
                self.open -= 1;
            }
        }
    }

    /// Returns the message of this id.
    pub(crate) fn question(&self, id: u64) -> Option<Question> {
        self.asked_by_id.get(&id).map(|asked| asked.question)
    }

    /// Questions without an answer yet.
    pub(crate) fn open(&self) -> u64 {
        self.open
    }

    /// From the intended time of sending to the answer.
    pub(crate) fn times(&self) -> Latencies {
        let mut times = Latencies::default();
        let answers = self.asked_by_id.values().filter_map(|asked| asked.answer);
        answers.for_each(|answer| times.record_us(answer.after_us.into()));
        times
    }

    /// Compares the answers with the arrivals.
    pub(crate) fn totals(&self, has_arrived: impl Fn(&Question) -> bool) -> AckTotals {
        let mut totals = AckTotals {
            asked: self.asked_by_id.len() as u64,
            unanswered: self.open,
            repeated: self.repeated,
            stray: self.stray,
            ..AckTotals::default()
        };
        for asked in self.asked_by_id.values() {
            match asked.answer.map(|answer| answer.result) {
                Some(AckResult::Delivered) => {
                    totals.acked += 1;
                    totals.untrue += u64::from(!has_arrived(&asked.question));
                }
                Some(AckResult::Failed) => totals.failed += 1,
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
            acks.asked(*id, Question { sender: 0, receiver: 1, number: *id, time_us: 1_000 });
        }
        acks
    }

    #[test]
    fn each_question_wants_one_answer_and_its_time_is_taken() {
        let mut acks = asked(&[1, 2, 3]);
        acks.answered(0, 1, AckResult::Delivered, 1_500);
        acks.answered(0, 2, AckResult::Failed, 9_000);

        let (totals, times) = (acks.totals(|_| true), acks.times().percentiles());

        assert_eq!(acks.open(), 1);
        assert_eq!((totals.asked, totals.acked, totals.failed, totals.unanswered), (3, 1, 1, 1));
        assert_eq!((times.count, times.p50), (2, 500));
        assert!((8_000..8_010).contains(&times.max), "{times:?}");
    }

    #[test]
    fn an_ack_for_what_never_arrived_is_untrue_and_an_error_for_it_is_not() {
        let mut acks = asked(&[1, 2]);
        acks.answered(0, 1, AckResult::Delivered, 1_500);
        acks.answered(0, 2, AckResult::Failed, 9_000);

        assert_eq!(acks.totals(|_| false).untrue, 1);
        assert_eq!(acks.totals(|question| question.number == 1).untrue, 0);
    }

    #[test]
    fn a_second_answer_is_a_repeat_and_the_first_one_counts() {
        let mut acks = asked(&[1]);
        acks.answered(0, 1, AckResult::Delivered, 1_500);
        acks.answered(0, 1, AckResult::Failed, 9_000);

        let totals = acks.totals(|_| true);

        assert_eq!((totals.acked, totals.failed, totals.repeated), (1, 0, 1));
    }

    #[test]
    fn an_answer_to_nobodys_question_or_to_somebody_elses_is_stray() {
        let mut acks = asked(&[1]);
        acks.answered(0, 9, AckResult::Delivered, 1_500);
        acks.answered(1, 1, AckResult::Delivered, 1_500);

        assert_eq!(acks.totals(|_| true), AckTotals { asked: 1, unanswered: 1, stray: 2, ..AckTotals::default() });
    }
}
