//! A HorizontalPodAutoscaler, reckoned as the controller of Kubernetes reckons one whose metric has an average value for target. Pure.

use std::collections::VecDeque;

/// What the autoscaler is told: the fields of `autoscaling/v2`, times in seconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Policy {
    /// `minReplicas`.
    pub(crate) min: u32,
    /// `maxReplicas`.
    pub(crate) max: u32,
    /// Cores each pod should use.
    pub(crate) target: f64,
    /// How fast there may be more.
    pub(crate) up: Pace,
    /// How fast there may be fewer.
    pub(crate) down: Pace,
}

/// How fast the number may change. Of the two limits the one that allows more holds (`selectPolicy: Max`).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pace {
    /// `stabilizationWindowSeconds`.
    pub(crate) window: u64,
    /// At most so many percent in so many seconds.
    pub(crate) percent: (u32, u64),
    /// At most so many pods in so many seconds.
    pub(crate) pods: (u32, u64),
}

impl Policy {
    /// That of nodes in `deploy/overlays/production`.
    #[must_use]
    pub(crate) fn of_nodes() -> Self {
        Self {
            min: 3,
            max: 60,
            target: 0.6,
            up: Pace { window: 0, percent: (100, 15), pods: (4, 15) },
            down: Pace { window: 300, percent: (10, 60), pods: (1, 60) },
        }
    }
}

/// How often the controller looks, in seconds.
pub(crate) const SYNC: u64 = 15;
/// A ratio this near to one changes nothing.
const TOLERANCE: f64 = 0.1;

/// The controller's memory of one autoscaler.
#[derive(Debug)]
pub(crate) struct Autoscaler {
    policy: Policy,
    /// When, and how many it would have had.
    wishes: VecDeque<(u64, u32)>,
    /// When, and how many more or fewer there were from then on.
    changes: VecDeque<(u64, i64)>,
}

impl Autoscaler {
    /// It has seen nothing yet.
    #[must_use]
    pub(crate) fn new(policy: Policy) -> Self {
        Self { policy, wishes: VecDeque::new(), changes: VecDeque::new() }
    }

    /// How many pods there shall be, if there are `pods` now and these are the cores that some of them use; of the others
    /// nothing is known yet.
    pub(crate) fn decide(&mut self, now: u64, pods: u32, cores: &[f64]) -> u32 {
        let wish = self.wish(pods, cores).clamp(self.policy.min, self.policy.max);
        self.wishes.push_back((now, wish));
        let longest = self.policy.up.window.max(self.policy.down.window);
        self.wishes.retain(|(at, _)| at + longest >= now);
        let within = |window: u64| self.wishes.iter().filter(move |(at, _)| at + window >= now).map(|(_, wish)| *wish);
        let least = within(self.policy.up.window).min().unwrap_or(wish);
        let most = within(self.policy.down.window).max().unwrap_or(wish);
        let steady = pods.max(least).min(most.max(least));
        let allowed = steady.clamp(self.lowest(now, pods), self.highest(now, pods));
        if allowed != pods {
            self.changes.push_back((now, i64::from(allowed) - i64::from(pods)));
        }
        allowed
    }

    fn wish(&self, pods: u32, cores: &[f64]) -> u32 {
        if cores.is_empty() {
            return pods;
        }
        let ratio = |sum: f64, count: usize| sum / (count as f64 * self.policy.target);
        let known = ratio(cores.iter().sum(), cores.len());
        let missing = (pods as usize).saturating_sub(cores.len());
        // Pods of which nothing is known must not exaggerate: they idle where more are wanted, and are busy where fewer are.
        let assumed = if known < 1.0 { missing as f64 * self.policy.target } else { 0.0 };
        let count = cores.len() + missing;
        let cautious = ratio(cores.iter().sum::<f64>() + assumed, count);
        if (cautious - 1.0).abs() <= TOLERANCE || (cautious > 1.0) != (known > 1.0) {
            return pods;
        }
        // Against the noise of binary fractions just above a whole number.
        (cautious * count as f64 - 1e-9).ceil() as u32
    }

    fn highest(&self, now: u64, pods: u32) -> u32 {
        let Pace { percent: (percent, per), pods: (step, in_seconds), .. } = self.policy.up;
        let by_percent = self.before(now, per, pods) * (100 + u64::from(percent));
        let by_pods = self.before(now, in_seconds, pods) + u64::from(step);
        by_percent.div_ceil(100).max(by_pods).max(u64::from(pods)) as u32
    }

    fn lowest(&self, now: u64, pods: u32) -> u32 {
        let Pace { percent: (percent, per), pods: (step, in_seconds), .. } = self.policy.down;
        let by_percent = self.before(now, per, pods) * u64::from(100 - percent.min(100)) / 100;
        let by_pods = self.before(now, in_seconds, pods).saturating_sub(u64::from(step));
        by_percent.min(by_pods).min(u64::from(pods)) as u32
    }

    /// How many there were so many seconds ago.
    fn before(&self, now: u64, seconds: u64, pods: u32) -> u64 {
        let since: i64 = self.changes.iter().filter(|(at, _)| at + seconds > now).map(|(_, change)| change).sum();
        (i64::from(pods) - since).max(0) as u64
    }
}
