//! How many clients come in, and how fast.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// What an edge takes.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionLimits {
    /// Client sockets in all.
    pub sockets: usize,
    /// Client sockets of one address; none: no limit.
    pub per_address: Option<usize>,
    /// New clients a second; as many may come at once after a quiet second.
    pub rate: u32,
}

/// Why a client is not taken now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TooMany {
    Sockets,
    PerAddress,
    Rate,
}

impl TooMany {
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::Sockets => "this server has as many clients as it may; try again later",
            Self::PerAddress => "your address has as many clients as it may",
            Self::Rate => "clients come faster than this server takes them; try again after the given time",
        }
    }

    pub(super) fn as_label(self) -> &'static str {
        match self {
            Self::Sockets => "sockets",
            Self::PerAddress => "address",
            Self::Rate => "rate",
        }
    }
}

/// Counts the clients that are in, and paces those that come.
#[derive(Debug)]
pub(super) struct Admission {
    limits: AdmissionLimits,
    sockets: usize,
    /// Empty unless there is a limit per address.
    sockets_by_address: HashMap<IpAddr, usize>,
    /// When the bucket would be full again: a token each `1 / rate` seconds.
    full_at: Instant,
}

impl Admission {
    pub(super) fn new(limits: AdmissionLimits, now: Instant) -> Self {
        Self { limits, sockets: 0, sockets_by_address: HashMap::new(), full_at: now }
    }

    pub(super) fn sockets(&self) -> usize {
        self.sockets
    }

    /// Lets one in, who must then be let [out](Self::leave).
    pub(super) fn enter(&mut self, now: Instant, address: IpAddr) -> Result<(), TooMany> {
        if self.sockets >= self.limits.sockets {
            return Err(TooMany::Sockets);
        }
        let of_address = self.sockets_by_address.get(&address).copied().unwrap_or_default();
        if self.limits.per_address.is_some_and(|limit| of_address >= limit) {
            return Err(TooMany::PerAddress);
        }
        let token = Duration::from_secs(1) / self.limits.rate.max(1);
        let full_at = self.full_at.max(now) + token;
        if full_at > now + Duration::from_secs(1).max(token) {
            return Err(TooMany::Rate);
        }
        self.full_at = full_at;
        self.sockets += 1;
        if self.limits.per_address.is_some() {
            *self.sockets_by_address.entry(address).or_default() += 1;
        }
        Ok(())
    }

    pub(super) fn leave(&mut self, address: IpAddr) {
        self.sockets -= 1;
        if let Some(count) = self.sockets_by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.sockets_by_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    const WIDE: AdmissionLimits = AdmissionLimits { sockets: 10_000, per_address: None, rate: 2_000 };

    #[test]
    fn the_sustained_rate_holds_after_the_burst() {
        let start = Instant::now();
        let mut admission = Admission::new(WIDE, start);
        let mut taken = [0, 0];
        for step in 0..30_000_u32 {
            let now = start + Duration::from_micros(u64::from(step) * 100);
            taken[usize::from(step >= 20_000)] += u32::from(admission.enter(now, A).is_ok());
            if admission.sockets() > 9_000 {
                admission.leave(A);
            }
        }
        assert!((5_990..=6_010).contains(&taken[0]), "a burst of one second, then the rate: {taken:?}");
        assert!((1_990..=2_010).contains(&taken[1]), "the rate alone: {taken:?}");
    }

    #[test]
    fn sockets_and_addresses_have_their_own_bounds() {
        let now = Instant::now();
        let mut admission = Admission::new(AdmissionLimits { sockets: 3, per_address: Some(2), ..WIDE }, now);
        assert_eq!(admission.enter(now, A), Ok(()));
        assert_eq!(admission.enter(now, A), Ok(()));
        assert_eq!(admission.enter(now, A), Err(TooMany::PerAddress));
        assert_eq!(admission.enter(now, B), Ok(()));
        assert_eq!(admission.enter(now, B), Err(TooMany::Sockets));
        admission.leave(A);
        assert_eq!(admission.enter(now, A), Ok(()));
        (0..2).for_each(|_| admission.leave(A));
        admission.leave(B);
        assert!(admission.sockets_by_address.is_empty());
        assert_eq!(admission.sockets(), 0);
    }

    #[test]
    fn even_one_a_second_lets_one_in() {
        let now = Instant::now();
        let mut admission = Admission::new(AdmissionLimits { rate: 1, ..WIDE }, now);
        assert_eq!(admission.enter(now, A), Ok(()));
        assert_eq!(admission.enter(now, A), Err(TooMany::Rate));
        assert_eq!(admission.enter(now + Duration::from_secs(1), A), Ok(()));
    }
}
