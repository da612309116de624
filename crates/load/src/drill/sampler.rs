use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use signaling_devmesh::MeshFile;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep_until};

use super::page::Page;
use super::tally::{Sample, ServerRun, Tally};
use crate::clock::Clock;
use crate::metrics::{fetch, http};

/// How often the servers are asked.
const EVERY: Duration = Duration::from_millis(100);
/// How long all may take to answer at first.
const BEGIN_WITHIN: Duration = Duration::from_secs(5);

/// Asks all servers of a mesh for their metrics, again and again.
pub(super) struct Sampler {
    /// The mesh's folder.
    dir: PathBuf,
    clock: Clock,
    http: reqwest::Client,
    tally: Tally,
    asking: JoinSet<(ServerRun, Result<String, reqwest::Error>)>,
    /// Those that have not answered; they are not asked again meanwhile, and nobody waits for them.
    asked: BTreeSet<ServerRun>,
}

impl Sampler {
    /// Returns once every server has answered, and so many sessions are at the nodes.
    pub(super) async fn begin(dir: &Path, clock: Clock, sessions: u64) -> Result<Self> {
        let mut sampler = Self {
            dir: dir.to_owned(),
            clock,
            http: http()?,
            tally: Tally::default(),
            asking: JoinSet::new(),
            asked: BTreeSet::new(),
        };
        let deadline = tokio::time::Instant::now() + BEGIN_WITHIN;
        let mut ticks = interval(EVERY);
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    let running = sampler.ask_all();
                    if !running.is_empty() && sampler.tally.is_complete(&running, sessions) {
                        sampler.tally.begin();
                        return Ok(sampler);
                    }
                }
                Some(answer) = sampler.asking.join_next() => sampler.heard(answer.ok()),
                () = sleep_until(deadline) => bail!("the metrics pages of the mesh do not show {sessions} sessions"),
            }
        }
    }

    /// Takes samples until `stop` fires or is dropped.
    pub(super) async fn run(mut self, mut stop: oneshot::Receiver<()>) -> Vec<Sample> {
        let mut samples = Vec::new();
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    let running = self.ask_all();
                    samples.push(self.tally.sample(self.clock.now_us(), &running));
                }
                Some(answer) = self.asking.join_next() => self.heard(answer.ok()),
                _ = &mut stop => return samples,
            }
        }
    }

    /// Asks those that are not being asked; returns the servers that run.
    fn ask_all(&mut self) -> Vec<ServerRun> {
        let Ok(mesh) = MeshFile::read(&self.dir) else { return Vec::new() };
        let nodes = mesh.nodes.into_iter().map(|node| (ServerRun { id: node.id, pid: node.pid }, node.internal));
        let balancers = mesh.balancers.into_iter().map(|it| (ServerRun { id: it.id, pid: it.pid }, it.internal));
        let mut running = Vec::new();
        for (server, internal) in nodes.chain(balancers) {
            if self.asked.insert(server.clone()) {
                let (http, server) = (self.http.clone(), server.clone());
                self.asking.spawn(async move { (server, fetch(&http, &internal).await) });
            }
            running.push(server);
        }
        running
    }

    fn heard(&mut self, answer: Option<(ServerRun, Result<String, reqwest::Error>)>) {
        let Some((server, text)) = answer else { return };
        self.asked.remove(&server);
        // One that does not answer is dead, paused or late, and shows by having no sessions.
        if let Ok(text) = text {
            self.tally.heard(server, Page::read(&text), self.clock.now_us());
        }
    }
}
