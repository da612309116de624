use std::collections::HashMap;

use serde::Serialize;

use crate::latency::Latencies;

/// Messages with a requested `ack`, by id, with their results.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    asked_by_id: HashMap<u64, Asked>,
    last_id: u64,
    open: u64,
    repeated: u64,
    stray: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) sender: usize,
    pub(crate) receiver: usize,
    pub(crate) number: u64,
    /// Time at which it was due, in microseconds.
    pub(crate) time_us: u64,
}

#[derive(Debug)]
struct Asked {
    question: Question,
    /// The answer, and the microseconds until it came.
    answer: Option<(AckResult, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckResult {
    /// `ack`: the message was delivered.
    Delivered,
    /// `error`: no delivery is known.
    Failed,
}

/// Comparison of answers and arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AckTotals {
    /// Messages with a requested answer.
    pub asked: u64,
    /// Messages answered by an `ack`.
    pub acked: u64,
    /// Messages answered by an `error`.
    pub failed: u64,
    /// Messages without an answer. This field and the next three must be 0.
    pub unanswered: u64,
    /// Messages with an `ack` that never arrived.
    pub untrue: u64,
    /// Further answers to an answered message.
    pub repeated: u64,
    /// Answers to no message of this client.
    pub stray: u64,
}

impl Acks {
    /// Returns an unused id.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Records a message with this unused id.
    pub(crate) fn asked(&mut self, id: u64, question: Question) {
        self.asked_by_id.insert(id, Asked { question, answer: None });
        self.open += 1;
    }

    pub(crate) fn answered(&mut self, sender: usize, id: u64, result: AckResult, now_us: u64) {
        match self.asked_by_id.get_mut(&id).filter(|asked| asked.question.sender == sender) {
            None => self.stray += 1,
            Some(Asked { answer: Some(_), .. }) => self.repeated += 1,
            Some(asked) => {
                let after_us = now_us.saturating_sub(asked.question.time_us);
                asked.answer = Some((result, u32::try_from(after_us).unwrap_or(u32::MAX)));
                self.open -= 1;
            }
        }
    }

    pub(crate) fn question(&self, id: u64) -> Option<Question> {
        self.asked_by_id.get(&id).map(|asked| asked.question)
    }

    pub(crate) fn open(&self) -> u64 {
        self.open
    }

    /// Returns the times from the intended sending to the answer.
    pub(crate) fn times(&self) -> Latencies {
        let mut times = Latencies::default();
        let answers = self.asked_by_id.values().filter_map(|asked| asked.answer);
        answers.for_each(|(_, after_us)| times.record_us(after_us.into()));
        times
    }

    pub(crate) fn totals(&self, has_arrived: impl Fn(&Question) -> bool) -> AckTotals {
        let mut totals = AckTotals {
            asked: self.asked_by_id.len() as u64,
            unanswered: self.open,
            repeated: self.repeated,
            stray: self.stray,
            ..AckTotals::default()
        };
        for asked in self.asked_by_id.values() {
            match asked.answer.map(|(result, _)| result) {
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
    use AckResult::{Delivered, Failed};

    /// Sender, id and result of each answer.
    type Answers<'a> = &'a [(usize, u64, AckResult)];

    #[test]
    fn answers_are_compared_with_questions_and_arrivals() {
        let all = AckTotals { asked: 2, unanswered: 2, ..AckTotals::default() };
        // Answers, `true` if the messages arrived, and the totals.
        let cases: [(Answers<'_>, bool, AckTotals); 5] = [
            (&[(0, 1, Delivered), (0, 2, Failed)], true, AckTotals { unanswered: 0, acked: 1, failed: 1, ..all }),
            (
                &[(0, 1, Delivered), (0, 2, Failed)],
                false,
                AckTotals { unanswered: 0, acked: 1, failed: 1, untrue: 1, ..all },
            ),
            (&[(0, 1, Delivered), (0, 1, Failed)], true, AckTotals { unanswered: 1, acked: 1, repeated: 1, ..all }),
            (&[(0, 9, Delivered), (1, 1, Delivered)], true, AckTotals { stray: 2, ..all }),
            (&[], true, all),
        ];
        for (answers, has_arrived, expected) in cases {
            let mut acks = Acks::default();
            for id in [1, 2] {
                acks.asked(id, Question { sender: 0, receiver: 1, number: id, time_us: 1_000 });
            }
            answers.iter().for_each(|(sender, id, result)| acks.answered(*sender, *id, *result, 1_500));

            assert_eq!(acks.totals(|_| has_arrived), expected, "{answers:?}");
            let times = acks.times().percentiles();
            assert_eq!((acks.open(), times.count), (expected.unanswered, expected.acked + expected.failed));
            assert!(times.count == 0 || times.p50 == 500);
        }
    }
}
