//! What is simulated, and what is measured.

use std::time::Duration;

use signaling_server::crowding::Settings;

/// Servers behind a front that knows no better than to take turns among those that are ready.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    /// In words.
    pub(crate) name: &'static str,
    /// Servers at the start.
    pub(crate) servers: usize,
    /// Clients that each of them has.
    pub(crate) held: u64,
    /// Servers that join after ten seconds, one a second.
    pub(crate) joins: usize,
    /// In so many seconds as many new clients come as each has.
    pub(crate) pace_s: f64,
    /// As many leave as come, before somebody joins; else nobody ever does.
    pub(crate) leaving: bool,
    /// Nothing if no server ever says unready.
    pub(crate) settings: Option<Settings>,
    /// How the front hears of readiness.
    pub(crate) probes: Probes,
    /// How servers hear of one another.
    pub(crate) answers: Answers,
    /// What goes wrong.
    pub(crate) trouble: Trouble,
    /// The front picks at random, as a Kubernetes Service does.
    pub(crate) random: bool,
    /// It ends when so many times `held` have come...
    pub(crate) until: f64,
    /// ... or after this, in seconds.
    pub(crate) longest_s: u64,
}

/// As a kubelet and the EndpointSlices behind it: one success is enough, so many failures in a row are needed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probes {
    pub(crate) period_ms: u64,
    pub(crate) failures: u32,
    /// Until the front goes by it.
    pub(crate) spread_ms: (u64, u64),
}

/// Of requests for a report.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answers {
    /// One way.
    pub(crate) delay_ms: (u64, u64),
    /// Of a hundred so many are lost.
    pub(crate) lost_percent: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    None,
    /// One of the first servers is gone after a minute, with its clients.
    Death,
    /// Servers stop for 3 to 8 s, now one and now another.
    Pauses,
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outcome {
    /// New clients since the join, in units of what one server had, until the spread (most less fewest) stayed below a tenth of the mean.
    pub(crate) even_after: Option<f64>,
    /// The spread, in means, once as many new clients had come as one server had.
    pub(crate) spread_at_one: f64,
    /// The most that a server had at any time, in means.
    pub(crate) peak: f64,
    /// Largest share of the servers that said unready at once.
    pub(crate) said: f64,
    /// Largest share that the front held for unready at once.
    pub(crate) seen: f64,
    /// How often a server began to say unready, per server and hour.
    pub(crate) turns_per_hour: f64,
    /// Clients that found nobody ready.
    pub(crate) turned_away: u64,
}

/// What the manifests set: a kubelet that asks each 2 s and believes the second failure.
pub(crate) const PROBES: Probes = Probes { period_ms: 2_000, failures: 2, spread_ms: (200, 2_000) };
/// What is usual between pods.
pub(crate) const ANSWERS: Answers = Answers { delay_ms: (1, 20), lost_percent: 0 };

/// `--ready-above 5`, and otherwise what is not given.
pub(crate) const SETTINGS: Settings = Settings {
    above: 0.05,
    below: 0.01,
    floor: 500,
    longest: Duration::from_secs(600),
    settle: Duration::from_secs(10),
    period: Duration::from_secs(1),
};

impl Scenario {
    /// Four servers with ten thousand clients each, and one that joins.
    pub(crate) fn one_joins_four() -> Self {
        Self {
            name: "one joins four, nobody leaves",
            servers: 4,
            held: 10_000,
            joins: 1,
            pace_s: 600.0,
            leaving: false,
            settings: Some(SETTINGS),
            probes: PROBES,
            answers: ANSWERS,
            trouble: Trouble::None,
            random: false,
            until: 8.0,
            longest_s: 20_000,
        }
    }

    /// All that the table shows.
    pub(crate) fn all() -> Vec<Self> {
        let usual = Self::one_joins_four;
        let leaving = || Self { leaving: true, until: 6.0, ..usual() };
        let slow = Probes { period_ms: 5_000, failures: 3, spread_ms: (1_000, 2_000) };
        let late = Answers { delay_ms: (50, 300), lost_percent: 10 };
        let stale = Settings { period: Duration::from_secs(10), ..SETTINGS };
        vec![
            Self { name: "one joins one, nobody leaves", servers: 1, until: 4.0, ..usual() },
            usual(),
            Self { name: "the same, readiness off", settings: None, until: 50.0, longest_s: 40_000, ..usual() },
            Self { name: "the same, picked at random", random: true, ..usual() },
            Self { name: "the same, six times as fast", pace_s: 100.0, ..usual() },
            Self { name: "one joins four, as many leave as come", ..leaving() },
            Self { name: "the same, readiness off", settings: None, until: 14.0, ..leaving() },
            Self { name: "two join four", joins: 2, ..leaving() },
            Self { name: "one joins nine", servers: 9, until: 12.0, ..leaving() },
            Self { name: "one joins four, one dies a minute later", trouble: Trouble::Death, ..leaving() },
            Self { name: "one joins four, probes each 5 s, three failures", probes: slow, ..leaving() },
            Self { name: "one joins four, answers late or lost", answers: late, ..leaving() },
            Self { name: "one joins four, counts up to 10 s old", settings: Some(stale), ..leaving() },
            Self { name: "one joins four, each pauses for seconds at times", trouble: Trouble::Pauses, ..leaving() },
            Self { name: "five alike", servers: 5, joins: 0, until: 30.0, ..leaving() },
            Self {
                name: "five alike, 1,000 clients each",
                servers: 5,
                held: 1_000,
                joins: 0,
                until: 30.0,
                ..leaving()
            },
        ]
    }

    /// The fewest new clients, in units of what one server had, after which the spread can be below a tenth of the mean at all,
    /// by whatever rule, while at least half of the servers are ready and the front takes turns: at best all who are unready are
    /// old ones, these all equal, and each that joined gets its turn all the time.
    pub(crate) fn fewest(&self) -> f64 {
        let all = self.servers + self.joins;
        let ready = all - (all / 2).min(self.servers);
        let (old, new) = (self.servers as f64, self.joins as f64);
        let step = 0.001;
        let (mut of_old, mut of_new, mut came) = (1.0, 0.0, 0.0);
        while of_old - of_new >= 0.1 * (of_old * old + of_new * new) / (old + new) {
            if self.leaving {
                let stay = 1.0 - step / old;
                (of_old, of_new) = (of_old * stay, of_new * stay);
            }
            of_new += step / ready as f64;
            of_old += step * (ready as f64 - new) / ready as f64 / old;
            came += step;
        }
        came
    }
}
