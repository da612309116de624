use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;

/// Who writes to whom. Each client has one partner, so each ordered pair has one numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Pairing {
    /// Client 2i with client 2i+1.
    Neighbours,
    /// Drawn by the seed.
    Random,
}

/// The partner of each client. The number of clients is even.
pub(crate) fn partners(clients: usize, pairing: Pairing, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..clients).collect();
    if pairing == Pairing::Random {
        order.shuffle(&mut StdRng::seed_from_u64(seed));
    }
    let mut partner_of = vec![0; clients];
    for pair in order.chunks_exact(2) {
        partner_of[pair[0]] = pair[1];
        partner_of[pair[1]] = pair[0];
    }
    partner_of
}

/// The order in which clients take turns to send, shuffled so that neighbours in the order are none in the fleet.
pub(crate) fn turns(clients: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..clients).collect();
    order.shuffle(&mut StdRng::seed_from_u64(seed.wrapping_add(1)));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_write_to_each_other() {
        assert_eq!(partners(6, Pairing::Neighbours, 1), [1, 0, 3, 2, 5, 4]);
    }

    #[test]
    fn random_partners_are_mutual_never_oneself_and_follow_from_the_seed() {
        let partner_of = partners(100, Pairing::Random, 7);

        for (client, partner) in partner_of.iter().enumerate() {
            assert_ne!(client, *partner);
            assert_eq!(partner_of[*partner], client);
        }
        assert_eq!(partner_of, partners(100, Pairing::Random, 7));
        assert_ne!(partner_of, partners(100, Pairing::Random, 8));
    }

    #[test]
    fn every_client_has_its_turn() {
        let mut order = turns(50, 3);
        order.sort_unstable();

        assert_eq!(order, (0..50).collect::<Vec<_>>());
    }
}
