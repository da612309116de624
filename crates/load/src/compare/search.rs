/// Search for the highest rate that is held, in steps of a quarter.
#[derive(Clone, Debug)]
pub(super) struct Search {
    /// The next rate to try; `None` at the end of the search.
    pub(super) next: Option<u64>,
    /// The highest rate that was held.
    pub(super) held: Option<u64>,
    is_going_down: bool,
}

/// All rates are multiples of this, which is also the minimum.
const GRAIN: u64 = 100;
/// Maximum rate, above the limit of the harness.
const HIGHEST: u64 = 1_000_000;

impl Search {
    pub(super) fn from(first: u64) -> Self {
        Self { next: Some(round(first).max(GRAIN)), held: None, is_going_down: false }
    }

    pub(super) fn tell(&mut self, is_held: bool) {
        let Some(tried) = self.next.take() else { return };
        if is_held {
            self.held = Some(tried);
            self.next =
                Some(round(tried * 5 / 4).max(tried + GRAIN)).filter(|next| !self.is_going_down && *next <= HIGHEST);
        } else {
            self.is_going_down = true;
            self.next = Some(round(tried * 4 / 5)).filter(|next| self.held.is_none() && *next >= GRAIN);
        }
    }
}

fn round(rate: u64) -> u64 {
    rate / GRAIN * GRAIN
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the tried rates for a server of this capacity, and the highest that it holds.
    fn search(first: u64, capacity: u64) -> (Vec<u64>, Option<u64>) {
        let (mut search, mut tried) = (Search::from(first), Vec::new());
        while let Some(rate) = search.next {
            tried.push(rate);
            search.tell(rate <= capacity);
        }
        (tried, search.held)
    }

    #[test]
    fn search_goes_up_or_down_and_ends() {
        assert_eq!(search(10_000, 20_000), (vec![10_000, 12_500, 15_600, 19_500, 24_300], Some(19_500)));
        assert_eq!(search(10_000, 7_000), (vec![10_000, 8_000, 6_400], Some(6_400)));
        let (tried, highest) = search(1_000, 0);
        assert_eq!((tried.last(), highest), (Some(&100), None));
        for low in [1, 100, 300] {
            assert!(search(low, 2_000).1.is_some_and(|highest| (1_500..=2_000).contains(&highest)), "from {low}");
        }
        let (tried, highest) = search(10_000, u64::MAX);
        assert!(tried.len() < 30 && highest > Some(800_000), "{highest:?} after {} steps", tried.len());
    }
}
