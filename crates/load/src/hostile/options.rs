use std::net::{IpAddr, Ipv4Addr};

use clap::Args;

/// Who the crowd is, and what good clients may notice.
#[derive(Clone, Debug, Args)]
pub struct HostileOptions {
    /// Connections that ask for a WebSocket byte by byte and never end; whoever is closed begins again.
    #[arg(long, default_value_t = 5_000)]
    pub handshakes: u32,
    /// How many loopback addresses these come from, 127.0.0.1 and those behind it.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(1..=254))]
    pub addresses: u8,
    /// Clients that write to themselves and never read; whoever is closed comes back.
    #[arg(long, default_value_t = 2_000)]
    pub deaf: u32,
    /// Fail when the good clients' 99th percentile is above so many times what it was before, and above --max-p99-ms too.
    #[arg(long, default_value_t = 2.0)]
    pub max_p99_ratio: f64,
    /// A 99th percentile up to this is good enough, however small it was before.
    #[arg(long, default_value_t = 20.0)]
    pub max_p99_ms: f64,
}

impl HostileOptions {
    /// How many sockets the whole crowd has.
    pub(crate) fn sockets(&self) -> u32 {
        self.handshakes + self.deaf
    }

    /// Where a handshake comes from.
    pub(crate) fn address(&self, number: u32) -> IpAddr {
        let last = u8::try_from(number % u32::from(self.addresses)).unwrap_or_default() + 1;
        Ipv4Addr::new(127, 0, 0, last).into()
    }

    /// The largest 99th percentile that is good enough, given what it was before.
    pub(crate) fn allowed_p99_us(&self, before_us: u64) -> u64 {
        (before_us as f64 * self.max_p99_ratio).max(self.max_p99_ms * 1e3) as u64
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::options;

    #[test]
    fn handshakes_come_from_all_addresses_in_turn() {
        let crowd: HostileOptions = options(&["--addresses=3"]).unwrap();

        let addresses = [0, 1, 2, 3].map(|number| crowd.address(number).to_string());

        assert_eq!(addresses, ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.1"]);
    }

    #[test]
    fn the_larger_of_twice_what_it_was_and_20_ms_is_good_enough() {
        let crowd: HostileOptions = options(&[]).unwrap();

        assert_eq!(crowd.allowed_p99_us(3_000), 20_000);
        assert_eq!(crowd.allowed_p99_us(15_000), 30_000);
    }
}
