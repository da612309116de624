//! The registry: each client with the process that has its socket. A process that ends without
//! removing its clients is dead, and another node removes them.

use redis::{Cmd, RedisResult};
use signaling_rooms::Registrations;
use signaling_wire::Incarnation;

use crate::commands::KEPT_MS;
use crate::keys::Keys;
use crate::link::Link;
use crate::owner::Owner;
use crate::scripts;
use crate::writer::{FORMER_MS, STALE_MS, parse};

/// Maximum changes of one write.
const MAX_CHANGES: usize = 5_000;
/// Maximum clients of one command.
const CLIENTS_PER_COMMAND: usize = 500;
/// Maximum clients that one call of the script removes: it takes about 4 ms of the server.
const RELEASED_AT_ONCE: usize = 1_000;

/// Returns the command that renews a key.
fn keep(key: &String) -> Cmd {
    redis::cmd("PEXPIRE").arg(key).arg(KEPT_MS).to_owned()
}

/// Clients of one process in the registry.
pub(crate) struct Registry {
    keys: Keys,
    process: String,
    clients_key: String,
    /// Number of clients after the last write, if it was complete.
    written: Option<usize>,
}

impl Registry {
    pub(crate) fn new(keys: &Keys, process: &str) -> Self {
        let clients_key = keys.clients(process);
        Self { keys: keys.clone(), process: process.to_owned(), clients_key, written: None }
    }

    /// Writes which clients came and went. After a failure all are written anew.
    pub(crate) async fn write(&mut self, link: &Link, owner: &impl Owner) -> RedisResult<()> {
        let changes = owner.take_registrations(MAX_CHANGES);
        let count = changes.present.len() + changes.absent.len();
        self.written = (count < MAX_CHANGES).then(|| owner.clients());
        let written = self.send(link, changes).await;
        if written.is_err() {
            owner.forget_registrations();
        }
        written
    }

    async fn send(&self, link: &Link, changes: Registrations) -> RedisResult<()> {
        let Registrations { starts_anew, present, absent } = changes;
        if starts_anew {
            self.release_all(link, &self.process).await?;
        }
        let mut commands: Vec<Cmd> = Vec::new();
        for clients in present.chunks(CLIENTS_PER_COMMAND) {
            let (mut set, mut add) = (redis::cmd("HSET"), redis::cmd("SADD"));
            set.arg(&self.keys.registry);
            add.arg(&self.clients_key);
            for client in clients {
                set.arg(client.as_str()).arg(&self.process);
                add.arg(client.as_str());
            }
            commands.extend([set, add]);
        }
        if !present.is_empty() {
            commands.extend([&self.keys.registry, &self.clients_key].map(keep));
        }
        for clients in absent.chunks(CLIENTS_PER_COMMAND) {
            commands.push(scripts::release(&self.keys.registry, &self.clients_key, &self.process, clients));
        }
        if !commands.is_empty() {
            for answer in link.send(&commands).await? {
                answer?;
            }
        }
        Ok(())
    }

    /// Removes all clients of a process that still name it.
    async fn release_all(&self, link: &Link, process: &str) -> RedisResult<()> {
        let clients = self.keys.clients(process);
        loop {
            let call = scripts::release_all(&self.keys.registry, &clients, process, RELEASED_AT_ONCE);
            let answer = link.send(&[call]).await?.into_iter().next();
            if answer.map(parse::<u64>).transpose()?.unwrap_or_default() == 0 {
                return Ok(());
            }
        }
    }

    /// Gives a sign of life of the process. Has all clients be written anew if the journal lacks
    /// the process or some of them.
    pub(crate) async fn beat(&self, link: &Link, owner: &impl Owner, time_ms: u64) -> RedisResult<()> {
        let commands = [
            redis::cmd("ZADD").arg(&self.keys.nodes).arg(time_ms).arg(&self.process).to_owned(),
            redis::cmd("SCARD").arg(&self.clients_key).to_owned(),
            keep(&self.keys.registry),
            keep(&self.keys.nodes),
            keep(&self.clients_key),
        ];
        let mut answers = link.send(&commands).await?.into_iter();
        answers.next().transpose()?;
        let known: u64 = answers.next().map(parse).transpose()?.unwrap_or_default();
        let has_registry: u64 = answers.next().map(parse).transpose()?.unwrap_or_default();
        let is_complete = |written| known == written as u64 && (written == 0 || has_registry == 1);
        if self.written.is_some_and(|written| !is_complete(written)) {
            owner.forget_registrations();
        }
        Ok(())
    }

    /// Removes the clients of dead processes whose names this node is the first one for.
    pub(crate) async fn clean(&self, link: &Link, owner: &impl Owner, time_ms: u64) -> RedisResult<()> {
        let list = redis::cmd("ZRANGE").arg(&self.keys.nodes).arg(0).arg(-1).arg("WITHSCORES").to_owned();
        let answer = link.send(&[list]).await?.into_iter().next();
        let processes: Vec<(String, f64)> = answer.map(parse).transpose()?.unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "a time in ms is below 2^53")]
        let [stale, former] = [STALE_MS, FORMER_MS].map(|age| time_ms.saturating_sub(age) as f64);
        for (process, heard) in processes {
            let Some((node, incarnation)) = process.split_once('/') else { continue };
            let Ok(incarnation) = incarnation.parse::<Incarnation>() else { continue };
            let is_dead = heard < stale || (heard < former && owner.is_former_process(node, incarnation));
            if process != self.process && is_dead && owner.cleans(node) {
                self.release_all(link, &process).await?;
                link.send(&[redis::cmd("ZREM").arg(&self.keys.nodes).arg(&process).to_owned()]).await?;
            }
        }
        Ok(())
    }
}
