use serde::{Deserialize, Serialize};

use crate::common::CommonPart;
use crate::crew::Part;
use crate::latency::Latencies;

/// What became of the calls of one process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CallPart {
    pub(super) common: CommonPart,
    pub(super) set_up: u64,
    /// Messages of calls that the sender's own socket did not take.
    pub(super) unsent: u64,
    /// Of the calls that were to begin in the measured time.
    pub(super) set_up_times: Latencies,
    pub(super) answer_times: Latencies,
}

impl Part for CallPart {
    fn absorb(&mut self, other: Self) {
        self.common.absorb(other.common);
        self.set_up += other.set_up;
        self.unsent += other.unsent;
        self.set_up_times.absorb(&other.set_up_times);
        self.answer_times.absorb(&other.answer_times);
    }
}
