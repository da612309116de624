//! The registry in Redis. A node's shell registers its clients here and cleans up after dead nodes.

use std::time::Duration;

use redis::Cmd;
use signaling_protocol::{ClientId, NodeId};

use super::connection::Connection;
use super::scripts;
use crate::rules::millis;
use crate::{Cleaned, Clock, Entry, KeyPrefix, Registration, StoreError, Sweep};

/// Maximum entries of one cleaning step or one write.
const MAX_CHUNK: usize = 200;
/// Approximate number of entries that one step renews.
const RENEWALS_PER_STEP: usize = 1_000;
/// Time without a renewal after which another cleaner takes over the claim.
const CLAIM_LIFETIME: Duration = Duration::from_secs(10);
/// Lifetime of an entry that is not renewed, in case the cleaner misses it.
const ENTRY_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// The registry in Redis or Valkey. It and its clones use the connection of a
/// [`RedisStore`](crate::RedisStore). A call fails if the server leaves a command without an answer
/// for 2 s. The caller can repeat a failed call.
#[derive(Clone)]
pub struct RedisRegistry {
    connection: Connection,
    clock: Clock,
    prefix: KeyPrefix,
}

impl RedisRegistry {
    pub(super) fn new(connection: Connection, clock: Clock, prefix: KeyPrefix) -> Self {
        Self { connection, clock, prefix }
    }

    /// Returns the number of established connections of the store and the registry that failed
    /// since the start: broken, silent, or to a server that cannot serve writes.
    #[must_use]
    pub fn lost_connections(&self) -> u64 {
        self.connection.lost()
    }

    fn nodes(&self) -> String {
        format!("{}:nodes", self.prefix.as_str())
    }

    fn forward(&self, client: &str) -> String {
        format!("{}:client:{client}", self.prefix.as_str())
    }

    fn reverse(&self, node: &NodeId) -> String {
        format!("{}:node:{node}:clients", self.prefix.as_str())
    }

    /// Removes a client's entry, unless the client is elsewhere by now.
    fn forget(&self, client: &str, node: &NodeId, session: &str) -> Cmd {
        let mut call = scripts::FORGET_CLIENT.call();
        call.arg(1).arg(self.forward(client)).arg(node.as_str()).arg(session);
        call
    }

    async fn now(&self) -> Result<i64, StoreError> {
        if let Some(now) = self.clock.given() {
            return Ok(i64::try_from(now).unwrap_or_default());
        }
        let (seconds, micros): (i64, i64) = self.connection.ask(redis::cmd("TIME")).await?;
        Ok(seconds * 1000 + micros / 1000)
    }

    /// Claims a dead node, or renews `claim` if it is not empty. Without `holds` it removes the
    /// node and so ends `claim`. Returns the claim. Empty: it is refused.
    async fn claim(
        &self,
        dead: &NodeId,
        silent: Duration,
        holds: Option<Duration>,
        claim: &str,
    ) -> Result<String, StoreError> {
        let now = self.clock.given().unwrap_or(0);
        let holds = holds.map(|holds| millis(holds).to_string()).unwrap_or_default();
        let mut call = scripts::CLAIM.call();
        call.arg(1).arg(self.nodes()).arg(dead.as_str()).arg(millis(silent)).arg(holds).arg(claim).arg(now);
        self.connection.ask(call).await
    }

    /// Cleans some entries of a dead node, and removes their reverse entries in any case.
    async fn clean_some(&self, dead: &NodeId, clients: &[String]) -> Result<Cleaned, StoreError> {
        let query = |client: &String| command(&["HMGET", &self.forward(client), "node", "session"]);
        let queries: Vec<_> = clients.iter().map(query).collect();
        let mut forgets = Vec::new();
        for (client, known) in clients.iter().zip(self.connection.send(|_| queries).await) {
            let known: (Option<String>, Option<String>) = redis::from_redis_value(known?).map_err(StoreError::new)?;
            if let (Some(node), Some(session)) = known
                && node == dead.as_str()
            {
                forgets.push(self.forget(client, dead, &session));
            }
        }
        let mut removed = 0;
        for answer in self.connection.send(|_| forgets).await {
            removed += redis::from_redis_value::<u64>(answer?).map_err(StoreError::new)?;
        }
        let mut done = command(&["SREM", &self.reverse(dead)]);
        done.arg(clients);
        self.connection.ask::<u64>(done).await?;
        Ok(Cleaned { removed, kept: clients.len() as u64 - removed })
    }

    /// Writes the entries of a node's attached clients, and removes those of detached clients.
    /// Keeps the entry of a detached client that another node or session has registered. After an
    /// error some changes may be written.
    pub async fn register(&self, node: &NodeId, changes: &[Registration]) -> Result<(), StoreError> {
        let now = self.now().await?.to_string();
        for changes in changes.chunks(MAX_CHUNK) {
            // The cleaner finds clients by reverse entries only, so these are written first.
            let (mut first, mut then) = (Vec::new(), Vec::new());
            for Registration { client, session, here } in changes {
                let (client, session) = (client.as_str(), session.to_string());
                if *here {
                    first.push(command(&["SADD", &self.reverse(node), client]));
                    let key = self.forward(client);
                    then.push(command(&["HSET", &key, "node", node.as_str(), "session", &session, "since", &now]));
                    then.push(command(&["PEXPIRE", &key, &millis(ENTRY_LIFETIME).to_string()]));
                } else {
                    first.push(self.forget(client, node, &session));
                    then.push(command(&["SREM", &self.reverse(node), client]));
                }
            }
            for answer in self.connection.send(|_| first).await.into_iter().chain(self.connection.send(|_| then).await)
            {
                answer?;
            }
        }
        Ok(())
    }

    /// Records a heartbeat of the node. Returns `false` if the registry did not have the node: this
    /// is the first heartbeat, or the registry has lost its data.
    pub async fn record_heartbeat(&self, node: &NodeId) -> Result<bool, StoreError> {
        let (now, nodes) = (self.now().await?.to_string(), self.nodes());
        let added: u64 = self.connection.ask(command(&["ZADD", &nodes, &now, node.as_str()])).await?;
        self.connection.ask::<u64>(command(&["PEXPIRE", &nodes, &millis(ENTRY_LIFETIME).to_string()])).await?;
        self.connection
            .ask::<u64>(command(&["PEXPIRE", &self.reverse(node), &millis(ENTRY_LIFETIME).to_string()]))
            .await?;
        Ok(added == 0)
    }

    /// Extends the lifetime of about 1,000 entries of a node to 24 h. Continues after `from`, and
    /// returns the position for the next step: [`Sweep::default`] once all entries are renewed.
    pub async fn renew_entries(&self, node: &NodeId, from: Sweep) -> Result<Sweep, StoreError> {
        let mut scan = command(&["SSCAN", &self.reverse(node)]);
        scan.arg(from.0).arg("COUNT").arg(RENEWALS_PER_STEP);
        let (next, clients): (u64, Vec<String>) = self.connection.ask(scan).await?;
        let lifetime = millis(ENTRY_LIFETIME).to_string();
        let renew = |client: &String| command(&["PEXPIRE", &self.forward(client), &lifetime]);
        let renewals: Vec<_> = clients.iter().map(renew).collect();
        for answer in self.connection.send(|_| renewals).await {
            answer?;
        }
        Ok(Sweep(next))
    }

    /// Returns the nodes without a heartbeat for at least `silent`, longest silence first. Skips
    /// invalid names.
    pub async fn silent_nodes(&self, silent: Duration) -> Result<Vec<NodeId>, StoreError> {
        let until = (self.now().await? - millis(silent)).to_string();
        let names: Vec<String> =
            self.connection.ask(command(&["ZRANGEBYSCORE", &self.nodes(), "-inf", &until])).await?;
        Ok(names.iter().filter_map(|name| NodeId::new(name).ok()).collect())
    }

    /// Removes the entries of a node without a heartbeat for at least `silent`. The caller becomes
    /// its only cleaner, until it pauses for 10 s. `None`: the node is unknown or has sent a
    /// heartbeat, or another cleaner is at work. Some entries may be removed all the same.
    pub async fn clean(&self, dead: &NodeId, silent: Duration) -> Result<Option<Cleaned>, StoreError> {
        let (mut claim, mut all, mut cursor) = (String::new(), Cleaned::default(), "0".to_owned());
        loop {
            claim = self.claim(dead, silent, Some(CLAIM_LIFETIME), &claim).await?;
            if claim.is_empty() {
                return Ok(None);
            }
            let mut scan = command(&["SSCAN", &self.reverse(dead), &cursor, "COUNT"]);
            scan.arg(MAX_CHUNK);
            let (next, clients): (String, Vec<String>) = self.connection.ask(scan).await?;
            for clients in clients.chunks(MAX_CHUNK) {
                let Cleaned { removed, kept } = self.clean_some(dead, clients).await?;
                all.removed += removed;
                all.kept += kept;
            }
            if next == "0" {
                break;
            }
            cursor = next;
        }
        // Fails if the node has returned meanwhile.
        let ended = self.claim(dead, silent, None, &claim).await?;
        Ok((!ended.is_empty()).then_some(all))
    }

    /// Returns the location of a client; `None` if it has no entry.
    pub async fn find(&self, client: &ClientId) -> Result<Option<Entry>, StoreError> {
        let query = command(&["HMGET", &self.forward(client.as_str()), "node", "session", "since"]);
        let known: (Option<String>, Option<String>, Option<u64>) = self.connection.ask(query).await?;
        let (Some(node), Some(session), Some(since)) = known else { return Ok(None) };
        Ok(Some(Entry { node: NodeId::new(&node).map_err(StoreError::new)?, session, since }))
    }
}

fn command(words: &[&str]) -> Cmd {
    let mut command = redis::cmd(words.first().copied().unwrap_or_default());
    command.arg(words.get(1..).unwrap_or_default());
    command
}
