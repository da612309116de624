//! The loop of a journal: it connects, reads, writes and checks the clock, one request at a time.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use redis::{ErrorKind, FromRedisValue, RedisError, RedisResult, ServerErrorKind, Value};
use signaling_protocol::{NodeId, RoomName};
use signaling_rooms::{JournalBeat, JournalOutcome, JournalRead, JournalState, JournalWrite};
use signaling_wire::Incarnation;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, timeout_at};
use tracing::{error, info, warn};

use crate::address::Address;
use crate::commands::{self, KEPT_MS};
use crate::keys::Keys;
use crate::link::Link;
use crate::owner::{JournalStatus, Owner};
use crate::registry::Registry;
use crate::{JournalUrl, KeyPrefix, scripts};

/// Interval of writes.
const WRITE_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum bytes of a pipeline, about.
const MAX_BYTES: usize = 1024 * 1024;
/// Pause before the next attempt at a journal that is away.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Interval of checks of the server's clock and of the mesh that writes under the prefix.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Interval of signs of life of the process, and of the search for dead ones.
const BEAT_INTERVAL: Duration = Duration::from_secs(60);
/// Time after the start until rooms are searched that no node ended.
const ROOMS_CLEANED_AFTER: Duration = Duration::from_secs(600);
/// Maximum rooms that are read in one pipeline, of at most 8 MiB each.
const READS_AT_ONCE: usize = 2;
/// Age in ms of a sign of life from which on its process or room counts as dead.
pub(crate) const STALE_MS: u64 = 150_000;
/// Age in ms of a sign of life from which on its process is dead, if its node has another process
/// or left the view: longer than the interval of [`BEAT_INTERVAL`]. This node may be cut off.
pub(crate) const FORMER_MS: u64 = 70_000;
/// Maximum rooms that one search examines, and maximum rooms that it ends.
const ROOMS_SEARCHED: usize = 1_000;
const ROOMS_ENDED: usize = 100;

/// The journal of one process.
pub struct Journal {
    address: Address,
    url: JournalUrl,
    keys: Keys,
    node: NodeId,
    /// `NODE/INCARNATION`.
    process: String,
    /// Returns the accepted identities of the mesh, the one to write first.
    identities: Box<dyn Fn() -> Vec<String>>,
}

/// Why a journal is not written any more.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Redis(#[from] RedisError),
    #[error("another mesh writes under this prefix: choose another --room-journal-prefix, or delete its keys")]
    Foreign,
}

impl Journal {
    /// Creates the journal of a process of a node. `identities`: hashes of the accepted mesh
    /// secrets, the first one not empty and written.
    ///
    /// # Errors
    /// If the address is invalid, which a parsed [`JournalUrl`] is not.
    pub fn new(
        url: JournalUrl,
        prefix: KeyPrefix,
        (node, incarnation): (NodeId, Incarnation),
        identities: impl Fn() -> Vec<String> + 'static,
    ) -> Result<Self, String> {
        let address = Address::parse(url.as_str()).map_err(|_| "is no address of a Redis".to_owned())?;
        let process = format!("{node}/{incarnation}");
        Ok(Self { address, url, keys: Keys::new(prefix), node, process, identities: Box::new(identities) })
    }

    /// Writes and reads what the owner requests. `wake` is notified when the owner has reads.
    pub async fn run(self, owner: &impl Owner, wake: &Notify) -> Infallible {
        let start = Instant::now();
        let (mut is_reported, mut behind_since) = (false, None);
        loop {
            let failure = match self.open().await {
                Ok(link) => {
                    info!(journal = %self.url, "room journal connected");
                    is_reported = false;
                    owner.forget_registrations();
                    let mut session = Session::new(&self, link, start, behind_since);
                    owner.set_status(session.status.clone());
                    let Err(failure) = session.serve(owner, wake).await;
                    behind_since = session.status.behind_since;
                    failure
                }
                Err(failure) => failure,
            };
            if !std::mem::replace(&mut is_reported, true) {
                match &failure {
                    Failure::Foreign => error!(journal = %self.url, "room journal is not written: {failure}"),
                    Failure::Redis(_) => warn!(journal = %self.url, error = %failure, "room journal failed"),
                }
            }
            owner.set_status(JournalStatus {
                is_up: false,
                problem: Some(failure.to_string()),
                is_foreign: matches!(failure, Failure::Foreign),
                behind_since: Some(*behind_since.get_or_insert_with(Instant::now)),
            });
            Self::answer_nothing(owner, wake).await;
        }
    }

    /// Answers reads by nothing until the next attempt.
    async fn answer_nothing(owner: &impl Owner, wake: &Notify) {
        let end = Instant::now() + RETRY_INTERVAL;
        loop {
            for room in owner.take_reads() {
                owner.answer(JournalRead { room, found: None });
            }
            if timeout_at(end.into(), wake.notified()).await.is_err() {
                return;
            }
        }
    }

    /// Connects, loads the scripts, and checks that no other mesh writes under the prefix.
    async fn open(&self) -> Result<Link, Failure> {
        let link = Link::open(&self.address).await?;
        for answer in link.send(&scripts::load()).await? {
            answer?;
        }
        self.check_mesh(&link).await?;
        Ok(link)
    }

    async fn check_mesh(&self, link: &Link) -> Result<(), Failure> {
        let accepted = (self.identities)();
        let Some(own) = accepted.first() else { return Ok(()) };
        let set = redis::cmd("SET").arg(&self.keys.mesh).arg(own).arg("NX").to_owned();
        let mut answers = link.send(&[set, redis::cmd("GET").arg(&self.keys.mesh).to_owned()]).await?.into_iter();
        answers.next().transpose()?;
        let known: Option<String> = answers.next().map(parse).transpose()?.flatten();
        match known {
            Some(known) if known == *own => Ok(()),
            Some(known) if !accepted.contains(&known) => Err(Failure::Foreign),
            // A former secret of this mesh, or the key was removed meanwhile.
            _ => {
                link.send(&[redis::cmd("SET").arg(&self.keys.mesh).arg(own).to_owned()]).await?;
                Ok(())
            }
        }
    }
}

/// Parses an answer.
pub(crate) fn parse<T: FromRedisValue>(answer: RedisResult<Value>) -> RedisResult<T> {
    Ok(T::from_redis_value(answer?)?)
}

/// One connection until it fails.
struct Session<'a> {
    journal: &'a Journal,
    link: Link,
    start: Instant,
    /// A time of the server in ms since 1970, and when it was read.
    clock: Option<(u64, Instant)>,
    beat_at: Instant,
    registry: Registry,
    /// Ended rooms that leave the list of rooms.
    ended: Vec<RoomName>,
    /// `true` once a room was logged that the server does not take.
    has_reported_room: bool,
    status: JournalStatus,
}

impl<'a> Session<'a> {
    fn new(journal: &'a Journal, link: Link, start: Instant, behind_since: Option<Instant>) -> Self {
        let status = JournalStatus { is_up: true, behind_since, ..JournalStatus::default() };
        let registry = Registry::new(&journal.keys, &journal.process);
        Self {
            journal,
            link,
            start,
            clock: None,
            beat_at: Instant::now(),
            registry,
            ended: Vec::new(),
            has_reported_room: false,
            status,
        }
    }

    /// Serves the owner until the connection fails.
    async fn serve(&mut self, owner: &impl Owner, wake: &Notify) -> Result<Infallible, Failure> {
        let mut ticks = interval(WRITE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.check_clock().await?;
            self.read(owner).await?;
            let is_tick = tokio::select! {
                biased;
                _ = ticks.tick() => true,
                () = wake.notified() => false,
            };
            if is_tick {
                self.write(owner).await?;
                self.registry.write(&self.link, owner).await?;
                if Instant::now() >= self.beat_at {
                    self.beat_at = Instant::now() + BEAT_INTERVAL;
                    self.beat(owner).await?;
                }
            }
        }
    }

    /// Reads the server's clock every 10 s, and checks the mesh.
    async fn check_clock(&mut self) -> Result<(), Failure> {
        if self.clock.is_some_and(|(_, read)| read.elapsed() < CHECK_INTERVAL) {
            return Ok(());
        }
        self.journal.check_mesh(&self.link).await?;
        let answer = self.link.send(&[redis::cmd("TIME")]).await?.into_iter().next();
        let (seconds, micros): (u64, u64) = answer.map(parse).transpose()?.unwrap_or_default();
        self.clock = Some((seconds * 1_000 + micros / 1_000, Instant::now()));
        Ok(())
    }

    /// Returns the time of the server in ms since 1970.
    fn time_ms(&self) -> u64 {
        let since = |read: Instant| u64::try_from(read.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.clock.map_or(0, |(time, read)| time.saturating_add(since(read)))
    }

    async fn read(&mut self, owner: &impl Owner) -> Result<(), Failure> {
        let rooms = owner.take_reads();
        for (at, rooms_now) in rooms.chunks(READS_AT_ONCE).enumerate() {
            let commands: Vec<_> = rooms_now.iter().flat_map(|room| commands::read(&self.journal.keys, room)).collect();
            let answers = match self.link.send(&commands).await {
                Ok(answers) => answers,
                Err(error) => {
                    let left = rooms.iter().skip(at * READS_AT_ONCE);
                    left.for_each(|room| owner.answer(JournalRead { room: room.clone(), found: None }));
                    return Err(error.into());
                }
            };
            let mut answers = answers.into_iter();
            for room in rooms_now {
                // Without one of its hashes, clients of the room would be taken for gone.
                let hashes = [(); 3].map(|()| answers.next().and_then(|it| parse(it).ok()));
                let found = if let [Some(meta), Some(members), Some(waiters)] = hashes {
                    commands::room([meta, members, waiters], self.time_ms())
                } else {
                    None
                };
                owner.answer(JournalRead { room: room.clone(), found });
            }
        }
        Ok(())
    }

    /// Writes what changed, at most about 1 MiB.
    async fn write(&mut self, owner: &impl Owner) -> Result<(), Failure> {
        let writes = owner.take_writes(MAX_BYTES);
        let (taken_at, took_all) = (Instant::now(), !owner.has_writes());
        let is_idle = writes.is_empty() && self.ended.is_empty();
        let sent = if is_idle { Ok(true) } else { self.send(owner, &writes).await };
        // Changes that came meanwhile are later than all that are written now.
        let since = if matches!(sent, Ok(true)) && took_all { None } else { self.status.behind_since };
        let behind_since = owner.has_writes().then(|| since.unwrap_or(taken_at));
        if self.status.behind_since != behind_since {
            self.status.behind_since = behind_since;
            owner.set_status(self.status.clone());
        }
        sent.map(drop).map_err(Failure::from)
    }

    /// Sends writes, and reports each. Returns `true` if the journal has all.
    async fn send(&mut self, owner: &impl Owner, writes: &[JournalWrite]) -> RedisResult<bool> {
        let Journal { keys, node, .. } = self.journal;
        let time_ms = self.time_ms();
        let mut calls = Vec::with_capacity(writes.len());
        let ended = std::mem::take(&mut self.ended);
        let mut listed = redis::cmd("ZADD");
        listed.arg(&keys.rooms);
        for write in writes {
            calls.push(commands::call(keys, write, node.as_str(), time_ms));
            if write.state.is_some() {
                listed.arg(time_ms).arg(write.room.as_str());
            }
            if beat_of(write).is_some() {
                calls.extend(commands::counts(keys, &write.room));
            }
        }
        if !ended.is_empty() {
            let rooms: Vec<_> = ended.iter().map(RoomName::as_str).collect();
            calls.push(redis::cmd("ZREM").arg(&keys.rooms).arg(rooms).to_owned());
        }
        // A room that has begun again since it ended is listed.
        if writes.iter().any(|write| write.state.is_some()) {
            calls.push(listed);
        }
        let answers = match self.link.send(&calls).await {
            Ok(answers) => answers,
            Err(error) => {
                writes.iter().for_each(|write| owner.written(&write.room, write.number, JournalOutcome::Lost));
                return Err(error);
            }
        };
        self.report(owner, writes, answers).await
    }

    async fn report(
        &mut self,
        owner: &impl Owner,
        writes: &[JournalWrite],
        answers: Vec<RedisResult<Value>>,
    ) -> RedisResult<bool> {
        let mut answers = answers.into_iter();
        let (mut refused, mut failure, mut is_unloaded, mut has_all) = (Vec::new(), None, false, true);
        for write in writes {
            let answer = answers.next().map(parse::<i64>).transpose();
            let counted = beat_of(write).map(|beat| (beat, [(); 4].map(|()| answers.next())));
            let outcome = match answer {
                Ok(Some(1)) if counted.is_none_or(|(beat, counts)| has_counts(beat, counts)) => JournalOutcome::Written,
                Ok(Some(0)) => {
                    refused.push(write);
                    continue;
                }
                Ok(_) => JournalOutcome::Lost,
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                    is_unloaded = true;
                    JournalOutcome::Lost
                }
                Err(error) if is_unfit(&error) => {
                    failure = Some(error);
                    JournalOutcome::Lost
                }
                Err(error) => {
                    // Such as for a key of its name with another type: a repetition would fail too.
                    if !std::mem::replace(&mut self.has_reported_room, true) {
                        warn!(journal = %self.journal.url, room = %write.room, %error, "room is not written");
                    }
                    JournalOutcome::Refused(u64::MAX)
                }
            };
            has_all &= outcome != JournalOutcome::Lost;
            if write.state.is_none() && outcome == JournalOutcome::Written {
                self.ended.push(write.room.clone());
            }
            owner.written(&write.room, write.number, outcome);
        }
        let later = self.epochs_of(&refused).await;
        for (write, epoch) in refused.into_iter().zip(later) {
            owner.written(&write.room, write.number, JournalOutcome::Refused(epoch));
        }
        if is_unloaded {
            self.link.send(&scripts::load()).await?;
        }
        failure.map_or(Ok(has_all), Err)
    }

    /// Returns the epochs that the journal has of rooms. `u64::MAX`: it has none, or does not
    /// answer.
    async fn epochs_of(&self, writes: &[&JournalWrite]) -> Vec<u64> {
        let get = |write: &&JournalWrite| {
            redis::cmd("HGET").arg(self.journal.keys.of(&write.room).meta).arg("epoch").to_owned()
        };
        let commands: Vec<_> = writes.iter().map(get).collect();
        let answers = if commands.is_empty() { Ok(Vec::new()) } else { self.link.send(&commands).await };
        let mut answers = answers.unwrap_or_default().into_iter();
        let epoch =
            |answer: Option<RedisResult<Value>>| answer.and_then(|it| parse::<u64>(it).ok()).unwrap_or(u64::MAX);
        writes.iter().map(|_| epoch(answers.next())).collect()
    }

    /// Gives a sign of life of the process, and ends what dead processes left.
    async fn beat(&mut self, owner: &impl Owner) -> Result<(), Failure> {
        let keys = &self.journal.keys;
        self.registry.beat(&self.link, owner, self.time_ms()).await?;
        let kept = [&keys.rooms, &keys.mesh].map(|key| redis::cmd("PEXPIRE").arg(key).arg(KEPT_MS).to_owned());
        self.link.send(&kept).await?;
        self.registry.clean(&self.link, owner, self.time_ms()).await?;
        if self.start.elapsed() >= ROOMS_CLEANED_AFTER {
            self.clean_rooms(owner).await?;
        }
        Ok(())
    }

    /// Ends rooms that are stale in the journal, and that their owner does not have.
    async fn clean_rooms(&mut self, owner: &impl Owner) -> RedisResult<()> {
        let keys = &self.journal.keys;
        let stale = self.time_ms().saturating_sub(STALE_MS);
        let mut search = redis::cmd("ZRANGEBYSCORE");
        search.arg(&keys.rooms).arg("-inf").arg(stale).arg("LIMIT").arg(0).arg(ROOMS_SEARCHED);
        let answer = self.link.send(&[search]).await?.into_iter().next();
        let names: Vec<String> = answer.map(parse).transpose()?.unwrap_or_default();
        let rooms = names.iter().filter_map(|name| RoomName::new(name).ok()).filter(|room| owner.is_left_over(room));
        let rooms: Vec<_> = rooms.take(ROOMS_ENDED).collect();
        for room in rooms {
            let get = redis::cmd("HMGET").arg(keys.of(&room).meta).arg("epoch").arg("number").to_owned();
            let answer = self.link.send(&[get]).await?.into_iter().next();
            let (epoch, number): (Option<u64>, Option<u64>) = answer.map(parse).transpose()?.unwrap_or_default();
            let (epoch, number) = (epoch.unwrap_or_default(), number.unwrap_or_default());
            // Without another write since, which the number shows.
            let after = Some(number).filter(|_| epoch > 0);
            let end = JournalWrite { room: room.clone(), epoch, number: number + 1, after, state: None };
            let call = commands::call(keys, &end, self.journal.node.as_str(), 0);
            if let Some(Ok(1)) = self.link.send(&[call]).await?.into_iter().next().map(parse::<i64>) {
                self.link.send(&[redis::cmd("ZREM").arg(&keys.rooms).arg(room.as_str()).to_owned()]).await?;
            }
        }
        Ok(())
    }
}

fn beat_of(write: &JournalWrite) -> Option<(&JournalBeat, (u64, u64))> {
    let JournalState { beat, counts, .. } = write.state.as_ref()?;
    beat.as_ref().map(|beat| (beat, *counts))
}

/// Returns `true` if the journal has as many clients as the room.
fn has_counts((_, (members, waiting)): (&JournalBeat, (u64, u64)), counts: [Option<RedisResult<Value>>; 4]) -> bool {
    let counts = counts.map(|count| count.and_then(|count| parse::<u64>(count).ok()));
    counts == [Some(members), Some(members), Some(waiting), Some(waiting)]
}

/// Returns `true` if the server cannot be written now, for any room.
fn is_unfit(error: &RedisError) -> bool {
    use ServerErrorKind::{BusyLoading, ClusterDown, MasterDown, ReadOnly};
    const CODES: [&str; 6] = ["OOM", "READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "MISCONF"];
    let text = error.to_string();
    error.is_io_error()
        || matches!(error.kind(), ErrorKind::Server(ReadOnly | BusyLoading | MasterDown | ClusterDown))
        || CODES.iter().any(|code| text.contains(code))
}
