/// Events of a run for drills. Times are microseconds on the run's clock, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recording {
    /// First arrivals of messages.
    pub(crate) arrivals: Vec<Arrival>,
    /// End times of the sockets of clients that come back.
    pub(crate) closed_us: Vec<u64>,
    pub(crate) returned_us: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at_us: u64,
    /// Microseconds since the intended time of sending.
    pub(crate) latency_us: u32,
}

impl Recording {
    /// Allocates the space for this many messages at once, so that no message waits for it.
    pub(crate) fn for_messages(messages: u64) -> Self {
        Self { arrivals: Vec::with_capacity(usize::try_from(messages).unwrap_or(0)), ..Self::default() }
    }
}

impl Arrival {
    pub(crate) fn new(at_us: u64, latency_us: u64) -> Self {
        Self { at_us, latency_us: u32::try_from(latency_us).unwrap_or(u32::MAX) }
    }
}
