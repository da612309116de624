use std::collections::BTreeMap;

use super::contestant::Contestant;

/// One figure: what each round said of each contestant. A round that does not count is not there.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    by_contestant: BTreeMap<Contestant, BTreeMap<u32, f64>>,
}

impl Series {
    /// Enters what a round said; a later value of the same round replaces it.
    pub(super) fn add(&mut self, contestant: Contestant, round: u32, value: f64) {
        self.by_contestant.entry(contestant).or_default().insert(round, value);
    }

    /// The median of all rounds.
    pub(super) fn median(&self, contestant: Contestant) -> Option<f64> {
        median(self.by_contestant.get(&contestant)?.values().copied().collect())
    }

    /// The median of the rounds' own ratios: those rounds that count for both, each against its neighbour in time.
    pub(super) fn ratio(&self, of: Contestant, to: Contestant) -> Option<f64> {
        let (of, to) = (self.by_contestant.get(&of)?, self.by_contestant.get(&to)?);
        let ratios = of.iter().filter_map(|(round, value)| Some(value / to.get(round).filter(|to| **to > 0.0)?));
        median(ratios.collect())
    }

    /// How many rounds count.
    pub(super) fn rounds(&self, contestant: Contestant) -> usize {
        self.by_contestant.get(&contestant).map_or(0, BTreeMap::len)
    }
}

/// The middle value, or the mean of the two in the middle; nothing of nothing.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    let is_even = values.len().is_multiple_of(2);
    Some(if is_even { values[middle - 1].midpoint(upper) } else { upper })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Contestant::{Balancer, Nginx};

    fn series(balancer: &[(u32, f64)], nginx: &[(u32, f64)]) -> Series {
        let mut series = Series::default();
        balancer.iter().for_each(|(round, value)| series.add(Balancer, *round, *value));
        nginx.iter().for_each(|(round, value)| series.add(Nginx, *round, *value));
        series
    }

    #[test]
    fn the_median_is_the_middle_or_between_the_two_middle_ones() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), Some(3.0));
        assert_eq!(median(vec![]), None);
    }

    #[test]
    fn one_bad_round_does_not_move_the_median() {
        assert_eq!(series(&[(0, 5.0), (1, 500.0), (2, 6.0)], &[]).median(Balancer), Some(6.0));
    }

    #[test]
    fn a_ratio_compares_within_rounds_so_a_machine_that_slows_down_does_not_show() {
        let slowing = series(&[(0, 1.0), (1, 2.0), (2, 4.0)], &[(0, 2.0), (1, 4.0), (2, 8.0)]);

        assert_eq!(slowing.ratio(Balancer, Nginx), Some(0.5));
    }

    #[test]
    fn rounds_that_count_for_one_alone_make_no_ratio() {
        let gaps = series(&[(0, 3.0), (1, 2.0)], &[(1, 4.0), (2, 100.0)]);

        assert_eq!(gaps.ratio(Balancer, Nginx), Some(0.5));
        assert_eq!(series(&[(0, 3.0)], &[(1, 1.0)]).ratio(Balancer, Nginx), None);
        assert_eq!(series(&[(0, 3.0)], &[(0, 0.0)]).ratio(Balancer, Nginx), None);
        assert_eq!((gaps.rounds(Balancer), gaps.rounds(Contestant::Echo)), (2, 0));
    }
}
