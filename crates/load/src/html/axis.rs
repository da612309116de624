/// One axis: from 0 to a round number, with a few round numbers between; or by powers of ten.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) ticks: Vec<f64>,
    low: f64,
    high: f64,
    is_log: bool,
}

const MOST_TICKS: f64 = 8.0;

impl Axis {
    /// From 0 to `most`, or a little more.
    pub(super) fn linear(most: f64) -> Self {
        let step = round_step(most.max(f64::MIN_POSITIVE) / MOST_TICKS);
        let steps = (most / step).ceil().max(1.0);
        let ticks = (0..=steps as u32).map(|number| f64::from(number) * step).collect();
        Self { ticks, low: 0.0, high: steps * step, is_log: false }
    }

    /// From 0 to exactly `most`.
    pub(super) fn time(most: f64) -> Self {
        let mut axis = Self::linear(most);
        axis.ticks.retain(|tick| *tick <= most);
        Self { high: most.max(f64::MIN_POSITIVE), ..axis }
    }

    /// Of powers of ten around `least` and `most`, which are above 0.
    pub(super) fn logarithmic(least: f64, most: f64) -> Self {
        let low = least.log10().floor();
        let high = most.log10().ceil().max(low + 1.0);
        let ticks = (low as i32..=high as i32).map(|power| 10_f64.powi(power)).collect();
        Self { ticks, low: 10_f64.powf(low), high: 10_f64.powf(high), is_log: true }
    }

    /// Where a value stands, from 0 to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        let place = if self.is_log {
            (value.max(self.low) / self.low).log10() / (self.high / self.low).log10()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        place.clamp(0.0, 1.0)
    }
}

/// 1, 2 or 5 times a power of ten, not below `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= step).unwrap_or(10.0);
    factor * power
}

/// A number in few characters.
pub(super) fn short(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        below if below < 0.1 => 3,
        below if below < 1.0 => 2,
        below if below < 100.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_ends_at_a_round_number_that_is_enough() {
        let axis = Axis::linear(730.0);

        assert_eq!(axis.ticks, [0.0, 100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0]);
        assert_eq!((axis.place(0.0), axis.place(400.0), axis.place(800.0)), (0.0, 0.5, 1.0));
    }

    #[test]
    fn an_axis_of_nothing_is_one_all_the_same() {
        assert!(Axis::linear(0.0).place(0.0).is_finite());
        assert!(Axis::time(0.0).place(0.0).is_finite());
    }

    #[test]
    fn time_ends_with_the_run() {
        let axis = Axis::time(33.0);

        assert_eq!(axis.ticks.last(), Some(&30.0));
        assert_eq!(axis.place(33.0), 1.0);
    }

    #[test]
    fn powers_of_ten_are_evenly_apart() {
        let axis = Axis::logarithmic(0.3, 80.0);

        assert_eq!(axis.ticks, [0.1, 1.0, 10.0, 100.0]);
        assert!((axis.place(1.0) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(axis.place(0.000_1), 0.0);
    }

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 0.012, 0.25, 1.0, 12.5, 12_345.6].map(short);

        assert_eq!(texts, ["0", "0.012", "0.25", "1", "12.5", "12346"]);
    }
}
