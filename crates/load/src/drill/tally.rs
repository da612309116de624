use std::collections::BTreeMap;

use super::page::{Counts, Page};

/// How long a page stands for its server; one that is paused says nothing, and then has no sessions.
const FRESH_US: u64 = 500_000;

/// One process of a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServerRun {
    pub(super) id: String,
    pub(super) pid: u32,
}

/// What all servers said up to a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) at_us: u64,
    /// Since the tally began.
    pub(super) counts: Counts,
    /// At all nodes together.
    pub(super) sessions: u64,
}

/// Adds up what the servers count, each process from its own beginning or that of the tally, whichever is later.
#[derive(Debug, Default)]
pub(super) struct Tally {
    last_by_run: BTreeMap<ServerRun, (Page, u64)>,
    counts: Counts,
    has_begun: bool,
}

impl Tally {
    /// From now on it counts; what the known servers have counted so far does not.
    pub(super) fn begin(&mut self) {
        (self.counts, self.has_begun) = (Counts::default(), true);
    }

    /// Whether all of these have been heard, and so many sessions are at them.
    pub(super) fn is_complete(&self, servers: &[ServerRun], sessions: u64) -> bool {
        let pages = servers.iter().map(|server| self.last_by_run.get(server));
        pages.map(|page| Some(page?.0.sessions)).sum::<Option<u64>>() >= Some(sessions)
    }

    /// A server has answered.
    pub(super) fn heard(&mut self, server: ServerRun, page: Page, at_us: u64) {
        let earlier = self.last_by_run.insert(server, (page, at_us)).map(|(page, _)| page.counts);
        if self.has_begun {
            self.counts += page.counts - earlier.unwrap_or_default();
        }
    }

    /// How things stand, when these servers run.
    pub(super) fn sample(&self, at_us: u64, running: &[ServerRun]) -> Sample {
        let fresh = |server| self.last_by_run.get(server).filter(|(_, heard_us)| at_us <= heard_us + FRESH_US);
        let sessions = running.iter().filter_map(fresh).map(|(page, _)| page.sessions).sum();
        Sample { at_us, counts: self.counts, sessions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: &str, pid: u32) -> ServerRun {
        ServerRun { id: id.to_owned(), pid }
    }

    fn page(attached: u64, sessions: u64) -> Page {
        Page { counts: Counts { attached, ..Counts::default() }, sessions }
    }

    #[test]
    fn it_is_complete_once_all_servers_are_heard_and_all_sessions_there() {
        let (mut tally, servers) = (Tally::default(), [run("node-0", 1), run("node-1", 1)]);
        tally.heard(run("node-0", 1), page(10, 10), 10);
        assert!(!tally.is_complete(&servers, 10));

        tally.heard(run("node-1", 1), page(2, 2), 10);

        assert!(tally.is_complete(&servers, 12));
        assert!(!tally.is_complete(&servers, 13));
    }

    #[test]
    fn what_was_counted_before_the_begin_does_not_count() {
        let mut tally = Tally::default();
        tally.heard(run("node-0", 1), page(100, 90), 10);
        tally.begin();
        tally.heard(run("node-0", 1), page(107, 97), 20);

        let sample = tally.sample(30, &[run("node-0", 1)]);

        assert_eq!((sample.counts.attached, sample.sessions), (7, 97));
    }

    #[test]
    fn a_server_that_starts_again_counts_from_nothing_and_what_it_counted_before_stays() {
        let mut tally = Tally::default();
        tally.begin();
        tally.heard(run("node-0", 1), page(5, 5), 10);
        tally.heard(run("node-0", 2), page(3, 3), 20);

        let sample = tally.sample(30, &[run("node-0", 2)]);

        assert_eq!((sample.counts.attached, sample.sessions), (8, 3));
    }

    #[test]
    fn the_sessions_of_one_that_has_long_said_nothing_or_is_gone_do_not_count() {
        let mut tally = Tally::default();
        tally.begin();
        for (id, at_us) in [("node-0", 0), ("node-1", 1_000_000), ("node-2", 1_000_000)] {
            tally.heard(run(id, 1), page(0, 10), at_us);
        }

        assert_eq!(tally.sample(1_000_000, &[run("node-0", 1), run("node-1", 1)]).sessions, 10);
    }
}
