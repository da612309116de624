use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;

use super::{Plan, TrafficOptions, Workload};
use crate::message::Size;
use crate::record::Record;

/// Workload of clients that take turns to send to their partners.
#[derive(Debug)]
pub(crate) struct Pairs {
    turns: Vec<usize>,
    size: Size,
}

impl Pairs {
    pub(crate) fn new(clients: u32, options: &TrafficOptions) -> Self {
        Self { turns: turns(clients as usize, options.run.seed), size: options.size }
    }
}

impl Workload for Pairs {
    fn begin(&mut self, number: u64, at_us: u64, plan: &mut Plan, _record: &mut Record) {
        let turn = usize::try_from(number % self.turns.len() as u64).unwrap_or(0);
        plan.add(at_us, self.turns[turn], 0, self.size.body(number));
    }
}

/// Returns the partner of each client. The number of clients is even.
pub(crate) fn partners(clients: usize, seed: u64) -> Vec<usize> {
    let order = shuffled(clients, seed);
    let mut partner_of = vec![0; clients];
    for pair in order.chunks_exact(2) {
        partner_of[pair[0]] = pair[1];
        partner_of[pair[1]] = pair[0];
    }
    partner_of
}

/// Returns the order in which clients send.
pub(crate) fn turns(clients: usize, seed: u64) -> Vec<usize> {
    shuffled(clients, seed.wrapping_add(1))
}

fn shuffled(clients: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..clients).collect();
    order.shuffle(&mut StdRng::seed_from_u64(seed));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partners_are_mutual_and_follow_from_the_seed() {
        let partner_of = partners(100, 7);

        for (client, partner) in partner_of.iter().enumerate() {
            assert_ne!(client, *partner);
            assert_eq!(partner_of[*partner], client);
        }
        assert_eq!(partner_of, partners(100, 7));
        assert_ne!(partner_of, partners(100, 8));
    }

    #[test]
    fn every_client_has_its_turn() {
        let mut order = turns(50, 3);
        order.sort_unstable();

        assert_eq!(order, (0..50).collect::<Vec<_>>());
    }
}
