use std::ops::Range;

/// What happened when, message by message, for scenarios that look at the course of a run. 24 bytes per message.
/// All times are those of the run's clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recording {
    /// In the order of their times.
    pub(crate) sent_us: Vec<u64>,
    /// In the order of their times, each message once.
    pub(crate) arrivals: Vec<Arrival>,
    /// `error` frames, in the order of their times.
    pub(crate) errors_us: Vec<u64>,
    /// Sockets that ended though we did not end them, in the order of their times.
    pub(crate) closed_us: Vec<u64>,
    /// When the harness itself stood still, in the order of their times: no fault of the servers.
    pub(crate) stalls: Vec<Range<u64>>,
}

/// A message that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at_us: u64,
    /// From the intended time of sending.
    pub(crate) latency_us: u32,
    pub(crate) receiver: u32,
}

impl Recording {
    /// Takes the room for so many messages at once, so that none of them has to wait for it.
    pub(crate) fn for_messages(messages: u64) -> Self {
        let messages = usize::try_from(messages).unwrap_or(usize::MAX);
        Self { sent_us: Vec::with_capacity(messages), arrivals: Vec::with_capacity(messages), ..Self::default() }
    }

    pub(crate) fn arrived(&mut self, at_us: u64, latency_us: u64, receiver: usize) {
        let latency_us = u32::try_from(latency_us).unwrap_or(u32::MAX);
        let receiver = u32::try_from(receiver).unwrap_or(u32::MAX);
        self.arrivals.push(Arrival { at_us, latency_us, receiver });
    }
}
