use std::net::{IpAddr, Ipv4Addr};

use clap::Args;

/// Loopback addresses that the handshakes come from.
const ADDRESSES: u32 = 50;
/// Larger than this, by what it was alone, a 99th percentile may not be.
const MAX_P99_RATIO: f64 = 2.0;

/// Who the crowd is, and what good clients may notice.
#[derive(Clone, Debug, Args)]
pub struct HostileOptions {
    /// Connections that request a WebSocket byte by byte and never end; a closed one starts again.
    #[arg(long, default_value_t = 5_000)]
    pub handshakes: u32,
    /// Clients that send to themselves and never read; a closed one reconnects.
    #[arg(long, default_value_t = 2_000)]
    pub deaf: u32,
    /// Fail when the good clients' 99th percentile is above this and above twice what it was alone,
    /// in milliseconds.
    #[arg(long, default_value_t = 20.0)]
    pub max_p99_ms: f64,
}

impl HostileOptions {
    pub(crate) fn sockets(&self) -> u32 {
        self.handshakes + self.deaf
    }

    pub(crate) fn address(number: u32) -> IpAddr {
        let last = u8::try_from(number % ADDRESSES).unwrap_or_default() + 1;
        Ipv4Addr::new(127, 0, 0, last).into()
    }

    /// The largest 99th percentile that is good enough, given what it was before.
    pub(crate) fn allowed_p99_us(&self, before_us: u64) -> u64 {
        (before_us as f64 * MAX_P99_RATIO).max(self.max_p99_ms * 1e3) as u64
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::options;

    #[test]
    fn addresses_come_in_turn_and_the_larger_limit_counts() {
        let addresses = [0, 1, 49, 50].map(|number| HostileOptions::address(number).to_string());
        assert_eq!(addresses, ["127.0.0.1", "127.0.0.2", "127.0.0.50", "127.0.0.1"]);

        let crowd: HostileOptions = options(&[]).unwrap();
        assert_eq!([3_000, 15_000].map(|before_us| crowd.allowed_p99_us(before_us)), [20_000, 30_000]);
    }
}
