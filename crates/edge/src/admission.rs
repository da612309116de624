//! Limits of client sockets and of their arrival rate. `connect` asks for each request for a
//! socket, and `state` for each connection.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::metrics::RefusalReason;
use signaling_core::edge::{Rate, TokenBucket};

/// Maximum addresses with a tracked rate. Further ones are refused until entries are removed.
const MAX_TRACKED_ADDRESSES: usize = 100_000;

/// Interval at which entries of idle addresses are removed.
const TIDY_INTERVAL: Duration = Duration::from_secs(1);

/// Connections that one address may always have besides clients. A browser loads a page over six,
/// and an address at its client limit still needs an answer.
const MIN_OTHER_CONNECTIONS: usize = 8;

/// Admission limits of an edge. A request above a limit is refused by status 429.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionLimits {
    /// Maximum client sockets. A socket counts until its connection is closed.
    pub sockets: usize,
    /// Maximum client sockets of one address or IPv6 /64. `None` sets no limit.
    pub per_address: Option<usize>,
    /// Maximum client sockets with tokens of one subject. `None` sets no limit.
    pub per_subject: Option<usize>,
    /// Maximum new clients/s after verification; 0 counts as 1. The burst is one second's worth.
    pub rate: u32,
    /// Maximum requests/s for a socket from one address or IPv6 /64, verified or not. The burst is
    /// one second's worth. `None` sets no limit.
    pub rate_per_address: Option<u32>,
}

/// Refusal of a client by a limit: the label of the metric, and the text that the client receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany(pub(super) RefusalReason, pub(super) &'static str);

impl TooMany {
    const SOCKETS: Self = Self(RefusalReason::Sockets, "this server has its maximum of clients; try again later");
    const OF_ADDRESS: Self = Self(RefusalReason::Address, "your address has its maximum of clients");
    /// Returns `true` for the text of a limit of one address.
    pub(super) fn is_of_address(text: &str) -> bool {
        [Self::OF_ADDRESS, Self::RATE_OF_ADDRESS].iter().any(|limit| limit.1 == text)
    }

    const OF_SUBJECT: Self = Self(RefusalReason::Subject, "your token's subject has its maximum of clients");
    const RATE: Self = Self(RefusalReason::Rate, "too many new clients; try again after the given time");
    const RATE_OF_ADDRESS: Self =
        Self(RefusalReason::AddressRate, "too many requests from your address; try again after the given time");
}

/// Counts the admitted clients and limits the rate of new ones.
#[derive(Debug)]
pub(super) struct Admission {
    limits: AdmissionLimits,
    sockets: usize,
    /// Empty unless there is a limit per address.
    sockets_by_address: HashMap<IpAddr, usize>,
    /// Empty unless there is a limit per subject.
    sockets_by_subject: HashMap<Box<str>, usize>,
    arrivals: TokenBucket,
    /// Addresses with recent requests. Empty unless there is a rate per address.
    arrivals_by_address: HashMap<IpAddr, TokenBucket>,
    /// Time of the last removal of idle addresses.
    tidied: Instant,
}

/// Returns a rate with a burst of one second's worth.
fn each_second(rate: u32) -> Rate {
    Rate { per_second: rate.max(1), burst: rate.max(1) }
}

/// Returns the network that limits count: for IPv6 the /64, the least of a subscriber (RFC 6177).
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() >> 64 << 64).into()),
    }
}

impl Admission {
    pub(super) fn new(limits: AdmissionLimits, now: Instant) -> Self {
        let arrivals = TokenBucket::full(now);
        Self {
            limits,
            sockets: 0,
            sockets_by_address: HashMap::new(),
            sockets_by_subject: HashMap::new(),
            arrivals,
            arrivals_by_address: HashMap::new(),
            tidied: now,
        }
    }

    /// Returns the number of admitted clients.
    pub(super) fn sockets(&self) -> usize {
        self.sockets
    }

    /// Counts a request of this address. It precedes the token check, since a signature costs more
    /// than the rest. Fails at the maximum of edge or address, or above its rate.
    pub(super) fn admit_request(&mut self, now: Instant, address: IpAddr) -> Result<(), TooMany> {
        let address = network(address);
        self.check_room(address)?;
        let Some(rate) = self.limits.rate_per_address else { return Ok(()) };
        if now >= self.tidied + TIDY_INTERVAL {
            self.tidied = now;
            self.arrivals_by_address.retain(|_, bucket| !bucket.is_full(now));
        }
        if self.arrivals_by_address.len() >= MAX_TRACKED_ADDRESSES && !self.arrivals_by_address.contains_key(&address) {
            return Err(TooMany::RATE_OF_ADDRESS);
        }
        let bucket = self.arrivals_by_address.entry(address).or_insert(TokenBucket::full(now));
        if bucket.take(now, each_second(rate), 1) { Ok(()) } else { Err(TooMany::RATE_OF_ADDRESS) }
    }

    /// Returns the maximum connections of this address that are not clients: the rest of its client
    /// limit, at least 8. `None`: addresses have no client limit.
    pub(super) fn max_other_connections(&self, address: IpAddr) -> Option<usize> {
        let clients = self.sockets_by_address.get(&network(address)).copied().unwrap_or_default();
        self.limits.per_address.map(|limit| limit.saturating_sub(clients).max(MIN_OTHER_CONNECTIONS))
    }

    /// Counts a verified client, with the subject of its token. Each success needs a
    /// [leave](Self::leave).
    fn admit_client(&mut self, now: Instant, address: IpAddr, subject: Option<&str>) -> Result<(), TooMany> {
        let address = network(address);
        self.check_room(address)?;
        let subject = self.limits.per_subject.and(subject);
        let of_subject = subject.and_then(|subject| self.sockets_by_subject.get(subject).copied()).unwrap_or_default();
        if self.limits.per_subject.is_some_and(|limit| of_subject >= limit) {
            return Err(TooMany::OF_SUBJECT);
        }
        if !self.arrivals.take(now, each_second(self.limits.rate), 1) {
            return Err(TooMany::RATE);
        }
        self.sockets += 1;
        if self.limits.per_address.is_some() {
            *self.sockets_by_address.entry(address).or_default() += 1;
        }
        if let Some(subject) = subject {
            *self.sockets_by_subject.entry(subject.into()).or_default() += 1;
        }
        Ok(())
    }

    fn check_room(&self, network: IpAddr) -> Result<(), TooMany> {
        if self.sockets >= self.limits.sockets {
            return Err(TooMany::SOCKETS);
        }
        let of_address = self.sockets_by_address.get(&network).copied().unwrap_or_default();
        match self.limits.per_address.is_some_and(|limit| of_address >= limit) {
            true => Err(TooMany::OF_ADDRESS),
            false => Ok(()),
        }
    }

    fn leave(&mut self, address: IpAddr, subject: Option<&str>) {
        self.sockets -= 1;
        subtract(&mut self.sockets_by_address, &network(address));
        if let Some(subject) = subject {
            subtract(&mut self.sockets_by_subject, subject);
        }
    }
}

/// Subtracts 1 from a count, and removes it at 0.
fn subtract<K: Hash + Eq + Borrow<Q>, Q: Hash + Eq + ?Sized>(counts: &mut HashMap<K, usize>, key: &Q) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// The admission of one client. It counts until the connection is closed, even after the session.
pub(super) struct AdmittedClient {
    admission: Rc<RefCell<Admission>>,
    address: IpAddr,
    subject: Option<Box<str>>,
}

impl AdmittedClient {
    /// Admits a verified client, with the subject of its token. Fails at the maximum of edge,
    /// address or subject, or above the edge's rate.
    pub(super) fn new(
        admission: &Rc<RefCell<Admission>>,
        now: Instant,
        address: IpAddr,
        subject: Option<&str>,
    ) -> Result<Rc<Self>, TooMany> {
        admission.borrow_mut().admit_client(now, address, subject)?;
        Ok(Rc::new(Self { admission: Rc::clone(admission), address, subject: subject.map(Box::from) }))
    }
}

impl Drop for AdmittedClient {
    fn drop(&mut self) {
        self.admission.borrow_mut().leave(self.address, self.subject.as_deref());
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    const WIDE: AdmissionLimits =
        AdmissionLimits { sockets: 10_000, per_address: None, per_subject: None, rate: 2_000, rate_per_address: None };

    #[test]
    fn each_rate_admits_what_one_second_brings() {
        let start = Instant::now();
        let limits = AdmissionLimits { rate: 3, rate_per_address: Some(2), ..WIDE };
        let mut admission = Admission::new(limits, start);
        for second in 0..3 {
            let now = start + Duration::from_secs(second);
            let requests = [A, A, A, B].map(|address| admission.admit_request(now, address));
            assert_eq!(requests, [Ok(()), Ok(()), Err(TooMany::RATE_OF_ADDRESS), Ok(())]);
            let clients = [A, A, B, B].map(|address| admission.admit_client(now, address, None));
            assert_eq!(clients, [Ok(()), Ok(()), Ok(()), Err(TooMany::RATE)]);
        }
    }

    #[test]
    fn sockets_and_addresses_have_separate_limits() {
        let now = Instant::now();
        let mut admission = Admission::new(AdmissionLimits { sockets: 3, per_address: Some(2), ..WIDE }, now);
        assert_eq!(admission.admit_client(now, A, None), Ok(()));
        assert_eq!(admission.admit_client(now, A, None), Ok(()));
        assert_eq!(admission.admit_client(now, A, None), Err(TooMany::OF_ADDRESS));
        assert_eq!(admission.admit_client(now, B, None), Ok(()));
        assert_eq!(admission.admit_client(now, B, None), Err(TooMany::SOCKETS));
        admission.leave(A, None);
        assert_eq!(admission.admit_client(now, A, None), Ok(()));
        (0..2).for_each(|_| admission.leave(A, None));
        admission.leave(B, None);
        assert!(admission.sockets_by_address.is_empty());
        assert_eq!(admission.sockets(), 0);
    }

    #[test]
    fn sockets_of_a_subject_have_a_limit() {
        let now = Instant::now();
        let mut admission = Admission::new(AdmissionLimits { per_subject: Some(2), ..WIDE }, now);
        let mut admit = |address, subject| admission.admit_client(now, address, subject);
        assert_eq!((admit(A, Some("s")), admit(B, Some("s"))), (Ok(()), Ok(())));
        assert_eq!(admit(B, Some("s")), Err(TooMany::OF_SUBJECT));
        assert_eq!(
            (admit(A, Some("t")), admit(A, None), admit(A, None), admit(A, None)),
            (Ok(()), Ok(()), Ok(()), Ok(()))
        );
        admission.leave(A, Some("s"));
        assert_eq!(admission.admit_client(now, A, Some("s")), Ok(()));
        ["s", "s", "t"].iter().for_each(|subject| admission.leave(A, Some(subject)));
        assert!(admission.sockets_by_subject.is_empty());
    }

    #[test]
    fn admitted_client_counts_until_dropped() {
        let now = Instant::now();
        let admission = Rc::new(RefCell::new(Admission::new(AdmissionLimits { sockets: 1, ..WIDE }, now)));
        let admitted = AdmittedClient::new(&admission, now, A, None).unwrap();
        let closing = Rc::clone(&admitted);
        drop(admitted);
        assert_eq!(AdmittedClient::new(&admission, now, A, None).err(), Some(TooMany::SOCKETS));
        drop(closing);
        assert!(AdmittedClient::new(&admission, now, A, None).is_ok());
    }

    #[test]
    fn clients_of_an_address_reduce_its_other_connections() {
        let now = Instant::now();
        let mut admission = Admission::new(AdmissionLimits { per_address: Some(10), ..WIDE }, now);
        assert_eq!(admission.max_other_connections(A), Some(10));
        assert_eq!(Admission::new(WIDE, now).max_other_connections(A), None);
        (0..10).for_each(|_| admission.admit_client(now, A, None).unwrap());
        let others = [A, B].map(|address| admission.max_other_connections(address));
        assert_eq!(others, [Some(MIN_OTHER_CONNECTIONS), Some(10)]);
    }

    #[test]
    fn ipv6_addresses_count_by_network() {
        let now = Instant::now();
        let limits = AdmissionLimits { per_address: Some(1), rate_per_address: Some(1), ..WIDE };
        let mut admission = Admission::new(limits, now);
        let [one, another, elsewhere]: [IpAddr; 3] =
            ["2001:db8::1", "2001:db8::ffff:0:1", "2001:db8:0:1::1"].map(|address| address.parse().unwrap());
        assert_eq!(admission.admit_request(now, one), Ok(()));
        assert_eq!(admission.admit_request(now, another), Err(TooMany::RATE_OF_ADDRESS));
        assert_eq!(admission.admit_client(now, one, None), Ok(()));
        assert_eq!(admission.admit_client(now, another, None), Err(TooMany::OF_ADDRESS));
        assert_eq!(admission.admit_request(now, another), Err(TooMany::OF_ADDRESS), "refused before the token check");
        assert_eq!(
            (admission.admit_request(now, elsewhere), admission.admit_client(now, elsewhere, None)),
            (Ok(()), Ok(()))
        );
        admission.leave(another, None);
        assert_eq!(admission.admit_client(now, one, None), Ok(()));
    }

    #[test]
    fn idle_addresses_are_forgotten_within_the_limit() {
        let now = Instant::now();
        let mut admission = Admission::new(AdmissionLimits { rate_per_address: Some(1), ..WIDE }, now);
        let address = |n: usize| IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(n).unwrap()));
        assert!((0..MAX_TRACKED_ADDRESSES).all(|n| admission.admit_request(now, address(n)).is_ok()));
        assert_eq!(admission.admit_request(now, address(MAX_TRACKED_ADDRESSES)), Err(TooMany::RATE_OF_ADDRESS));
        let later = now + Duration::from_secs(1);
        assert_eq!(admission.admit_request(later, address(MAX_TRACKED_ADDRESSES)), Ok(()));
        assert_eq!(admission.arrivals_by_address.len(), 1);
    }
}
