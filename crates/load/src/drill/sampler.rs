//! Counters and sessions of all servers of a mesh, across restarts, for `load`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use serde::Serialize;
use signaling_devmesh::{MeshFile, Server};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::schedule::Clock;
use crate::servers::{fetch, http, sum};

const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
const START_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time from the stop to a sample with all sessions.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum age of a server's answer. An older one counts no sessions.
const MAX_AGE_US: u64 = 500_000;

/// Counters of all servers, since the start of the sampling or between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Handoffs of sessions.
    pub handoffs: u64,
    /// Attachments of sessions to nodes: by a connect, resume, handoff or crash.
    pub attached: u64,
    /// Messages that nodes and edges retransmitted.
    pub retransmissions: u64,
    /// Duplicates that edges dropped.
    pub duplicates_dropped: u64,
}

/// Sums of the counters and sessions of all servers at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Time on the run's clock, in microseconds.
    pub(crate) at_us: u64,
    pub(crate) counts: Counts,
    /// Sessions with a socket at all nodes, without servers that did not answer for 500 ms.
    pub(crate) sessions: u64,
}

type ServerRun = (String, u32);

/// Sums of the servers' counters, each process from its start or from the start of the sampling.
#[derive(Debug, Default)]
struct CounterSums {
    last_by_run: BTreeMap<ServerRun, Sample>,
    counts: Counts,
}

pub(crate) struct Sampler {
    dir: PathBuf,
    clock: Clock,
    http: reqwest::Client,
    sums: CounterSums,
    requests: JoinSet<(ServerRun, Result<String, reqwest::Error>)>,
    /// Servers with a pending request; they get no further one.
    pending: BTreeSet<ServerRun>,
}

impl Counts {
    /// Returns the number of moves, by a handoff or after a crash, and of resumes: the larger
    /// count, since a handoff attaches too.
    pub fn moved(&self) -> u64 {
        self.handoffs.max(self.attached)
    }

    fn with(self, other: Self, apply: fn(u64, u64) -> u64) -> Self {
        Self {
            handoffs: apply(self.handoffs, other.handoffs),
            attached: apply(self.attached, other.attached),
            retransmissions: apply(self.retransmissions, other.retransmissions),
            duplicates_dropped: apply(self.duplicates_dropped, other.duplicates_dropped),
        }
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }
}

impl Sample {
    fn read(page: &str, at_us: u64) -> Self {
        let counts = Counts {
            handoffs: sum(page, "signaling_handoffs_total"),
            attached: sum(page, "signaling_sessions_attached_total"),
            retransmissions: sum(page, "signaling_node_retransmissions_total")
                + sum(page, "signaling_edge_retransmissions_total"),
            duplicates_dropped: sum(page, "signaling_duplicates_dropped_total"),
        };
        Self { at_us, counts, sessions: sum(page, "signaling_sessions") }
    }
}

impl CounterSums {
    fn answered(&mut self, server: ServerRun, page: Sample) {
        let earlier = self.last_by_run.insert(server, page).map(|earlier| earlier.counts);
        self.counts = self.counts.with(page.counts.since(earlier.unwrap_or_default()), |sum, more| sum + more);
    }

    /// Returns `true` once all servers have answered, with at least this number of sessions.
    fn is_complete(&self, servers: &[ServerRun], sessions: u64) -> bool {
        let pages = servers.iter().map(|server| self.last_by_run.get(server));
        pages.map(|page| Some(page?.sessions)).sum::<Option<u64>>() >= Some(sessions)
    }

    fn sample(&self, at_us: u64, running: &[ServerRun]) -> Sample {
        let fresh = |server| self.last_by_run.get(server).filter(|page| at_us <= page.at_us + MAX_AGE_US);
        let sessions = running.iter().filter_map(fresh).map(|page| page.sessions).sum();
        Sample { at_us, counts: self.counts, sessions }
    }
}

impl Sampler {
    /// Waits until every server of the mesh in `dir` has answered and the nodes have at least this
    /// number of sessions. Counters start at 0 then. Fails after 5 s.
    pub(crate) async fn begin(dir: &Path, clock: Clock, sessions: u64) -> Result<Self> {
        let (sums, requests, pending) = (CounterSums::default(), JoinSet::new(), BTreeSet::new());
        let mut sampler = Self { dir: dir.to_owned(), clock, http: http()?, sums, requests, pending };
        let deadline = Instant::now() + START_TIMEOUT;
        let mut ticks = interval(SAMPLE_INTERVAL);
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    let running = sampler.request_all();
                    if !running.is_empty() && sampler.sums.is_complete(&running, sessions) {
                        sampler.sums.counts = Counts::default();
                        return Ok(sampler);
                    }
                }
                Some(answer) = sampler.requests.join_next() => sampler.answered(answer.ok()),
                () = sleep_until(deadline) => bail!("the metrics pages of the mesh do not show {sessions} sessions"),
            }
        }
    }

    /// Takes a sample every 100 ms until `stop` fires or is dropped, and then until one has this
    /// number of sessions, for at most 10 s. Returns all, in order.
    pub(crate) async fn run(mut self, sessions: u64, mut stop: oneshot::Receiver<()>) -> Vec<Sample> {
        let (mut samples, mut latest_end) = (Vec::new(), None);
        let mut ticks = interval(SAMPLE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    let running = self.request_all();
                    let sample = self.sums.sample(self.clock.now_us(), &running);
                    samples.push(sample);
                    if latest_end.is_some_and(|end| sample.sessions == sessions || Instant::now() >= end) {
                        return samples;
                    }
                }
                Some(answer) = self.requests.join_next() => self.answered(answer.ok()),
                _ = &mut stop, if latest_end.is_none() => latest_end = Some(Instant::now() + END_TIMEOUT),
            }
        }
    }

    /// Requests metrics from servers without a pending request. Returns all running servers.
    fn request_all(&mut self) -> Vec<ServerRun> {
        let Ok(mesh) = MeshFile::read(&self.dir) else { return Vec::new() };
        let mut running = Vec::new();
        for Server { id, pid, internal, .. } in mesh.servers() {
            let server = (id.clone(), *pid);
            if self.pending.insert(server.clone()) {
                let (http, server, internal) = (self.http.clone(), server.clone(), internal.clone());
                self.requests.spawn(async move { (server, fetch(&http, &internal).await) });
            }
            running.push(server);
        }
        running
    }

    fn answered(&mut self, answer: Option<(ServerRun, Result<String, reqwest::Error>)>) {
        let Some((server, text)) = answer else { return };
        self.pending.remove(&server);
        // A server without an answer is dead, paused or late, and thus counts no sessions.
        if let Ok(text) = text {
            self.sums.answered(server, Sample::read(&text, self.clock.now_us()));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    fn run(id: &str, pid: u32) -> ServerRun {
        (id.to_owned(), pid)
    }

    fn page(attached: u64, sessions: u64, at_us: u64) -> Sample {
        Sample { at_us, counts: Counts { attached, ..Counts::default() }, sessions }
    }

    #[test]
    fn pages_are_read_by_whole_names_and_labels_are_added_up() {
        let text = "signaling_sessions 34\nsignaling_sessions_attached_total 40\n\
                    signaling_node_retransmissions_total{to=\"a\"} 2\nsignaling_node_retransmissions_total{to=\"b\"} 3\n\
                    signaling_edge_retransmissions_total 7\nsignaling_handoffs_total 8\nsignaling_duplicates_dropped_total 1\n";

        let counts = Counts { handoffs: 8, attached: 40, retransmissions: 12, duplicates_dropped: 1 };
        assert_eq!(Sample::read(text, 5), Sample { at_us: 5, counts, sessions: 34 });
        assert_eq!(counts.moved(), 40);
    }

    #[tokio::test]
    async fn stopped_sampler_waits_for_all_sessions() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let internal = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            for sessions in [1, 1, 2, 2] {
                let (mut socket, _) = listener.accept().await.unwrap();
                assert!(socket.read(&mut [0; 4096]).await.unwrap() > 0);
                let page = format!("signaling_sessions {sessions}\n");
                let answer = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{page}");
                socket.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let node = Server { id: "node-0".to_owned(), url: String::new(), internal, pid: 1 };
        let file = MeshFile { nodes: vec![node], ..MeshFile::default() };
        std::fs::write(dir.path().join("mesh.json"), serde_json::to_vec(&file).unwrap()).unwrap();
        let sampler = Sampler::begin(dir.path(), Clock::start(), 1).await.unwrap();
        let (stop, stopped) = oneshot::channel();
        drop(stop);

        let samples = sampler.run(2, stopped).await;

        assert_eq!(samples.first().unwrap().sessions, 1);
        assert_eq!(samples.last().unwrap().sessions, 2);
    }

    #[test]
    fn sums_are_complete_once_all_servers_have_answered() {
        let (mut sums, servers) = (CounterSums::default(), [run("node-0", 1), run("node-1", 1)]);
        sums.answered(run("node-0", 1), page(10, 10, 10));
        assert!(!sums.is_complete(&servers, 10));

        sums.answered(run("node-1", 1), page(2, 2, 10));

        assert!(sums.is_complete(&servers, 12) && !sums.is_complete(&servers, 13));
    }

    #[test]
    fn counts_survive_a_restart_and_silent_sessions_do_not() {
        let mut sums = CounterSums::default();
        sums.answered(run("node-0", 1), page(5, 5, 10));
        sums.answered(run("node-0", 2), page(3, 3, 20));
        sums.answered(run("node-1", 1), page(1, 1, 20));

        assert_eq!(sums.sample(30, &[run("node-0", 2)]), page(9, 3, 30));
        let late_us = 30 + MAX_AGE_US;
        assert_eq!(sums.sample(late_us, &[run("node-0", 2)]), page(9, 0, late_us));
    }
}
