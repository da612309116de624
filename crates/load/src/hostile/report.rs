use std::fmt::Write as _;

use serde::Serialize;

use super::HostileOptions;
use super::edges::Seen;
use crate::traffic::{Findings, TrafficOptions};

const MIB: f64 = 1024.0 * 1024.0;
/// Less of the crowd than this, on average, is another crowd.
const ENOUGH: f64 = 0.8;

/// What good clients noticed, and what became of the crowd.
#[derive(Serialize)]
pub(crate) struct Report {
    scenario: &'static str,
    /// The good clients alone.
    before: Findings,
    /// With the crowd.
    meanwhile: Findings,
    allowed_p99_us: u64,
    crowd: Present,
    edges: Vec<Seen>,
}

/// Who was there, on average, while the good clients were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Present {
    handshakes: f64,
    deaf: f64,
}

impl Present {
    pub(crate) fn mean(looks: &[(u64, u64)]) -> Self {
        let mean = |of: fn(&(u64, u64)) -> u64| looks.iter().map(of).sum::<u64>() as f64 / looks.len().max(1) as f64;
        Self { handshakes: mean(|look| look.0), deaf: mean(|look| look.1) }
    }
}

impl Report {
    pub(crate) fn new(
        options: &HostileOptions,
        (before, meanwhile): (Findings, Findings),
        crowd: Present,
        edges: Vec<Seen>,
    ) -> Self {
        let allowed_p99_us = options.allowed_p99_us(before.latency().p99);
        Self { scenario: "hostile", before, meanwhile, allowed_p99_us, crowd, edges }
    }

    pub(crate) fn failures(&self, options: &HostileOptions, traffic: &TrafficOptions) -> Vec<String> {
        let mut failures = Vec::new();
        for (when, findings) in [("before", &self.before), ("meanwhile", &self.meanwhile)] {
            let found = findings.failures(traffic).into_iter().chain(findings.closed_failures());
            failures.extend(found.map(|failure| format!("{when}: {failure}")));
            if findings.errors() > 0 {
                failures.push(format!("{when}: {} errors", findings.errors()));
            }
        }
        let p99 = self.meanwhile.latency().p99;
        if p99 > self.allowed_p99_us {
            failures.push(format!("p99 is {:.1} ms, above {:.1}", ms(p99), ms(self.allowed_p99_us)));
        }
        for (what, present, all) in
            [("handshakes", self.crowd.handshakes, options.handshakes), ("deaf clients", self.crowd.deaf, options.deaf)]
        {
            if present < f64::from(all) * ENOUGH {
                failures.push(format!("of {all} {what} only {present:.0} were there"));
            }
        }
        failures.extend(self.edges.iter().filter_map(Seen::failure));
        failures
    }

    pub(crate) fn table(&self, options: &HostileOptions) -> String {
        let mut table = format!(
            "alone\n{}\nwith a crowd of {:.0} handshakes from {} addresses and {:.0} deaf clients\n{}\n",
            self.before.table(),
            self.crowd.handshakes,
            options.addresses,
            self.crowd.deaf,
            self.meanwhile.table(),
        );
        for seen in &self.edges {
            // Writing to a String cannot fail.
            let _ = writeln!(table, "{}", seen.line());
        }
        table
    }
}

impl Seen {
    /// What its memory says against it.
    fn failure(&self) -> Option<String> {
        let Self { edge, resident_bytes, bound_bytes, .. } = self;
        if *bound_bytes == 0 {
            return Some(format!("{edge} does not say how much memory its clients can make it use"));
        }
        let is_too_much = resident_bytes > bound_bytes;
        is_too_much.then(|| {
            let (had, bound) = (*resident_bytes as f64 / MIB, *bound_bytes as f64 / MIB);
            format!("{edge} had {had:.0} MiB, and said that {bound:.0} is the most")
        })
    }

    fn line(&self) -> String {
        let highest = |name| self.highest.get(name).copied().unwrap_or_default();
        let counted = |name| self.counted.get(name).copied().unwrap_or_default();
        format!(
            "{:<11} {:.0} MiB at most of {:.0}; {} handshakes, {} sockets and {:.1} MiB kept at most; refused {}, closed {}, of \
             these for want of memory {}",
            self.edge,
            self.resident_bytes as f64 / MIB,
            self.bound_bytes as f64 / MIB,
            highest("signaling_handshakes"),
            highest("signaling_client_sockets"),
            highest("signaling_buffered_bytes") as f64 / MIB,
            counted("signaling_refused_connects_total"),
            counted("signaling_client_sockets_closed_total"),
            counted("signaling_evicted_clients_total"),
        )
    }
}

fn ms(us: u64) -> f64 {
    us as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_fails_that_has_more_than_it_said_or_says_nothing() {
        let seen = |resident_bytes, bound_bytes| Seen { resident_bytes, bound_bytes, ..Seen::default() };

        assert_eq!(seen(1, 1).failure(), None);
        assert!(seen(2 << 20, 1 << 20).failure().is_some_and(|text| text.contains("2 MiB")));
        assert!(seen(1, 0).failure().is_some());
    }

    #[test]
    fn who_was_there_is_a_mean() {
        assert_eq!(Present::mean(&[(10, 4), (20, 8)]), Present { handshakes: 15.0, deaf: 6.0 });
        assert_eq!(Present::mean(&[]), Present::default());
    }
}
