//! A connection that comes back by itself, and what goes over it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{Client, Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult, ServerErrorKind, Value};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::scripts;
use crate::StoreError;

/// A call takes no longer: a client waits for the answer to its join.
const CALL: Duration = Duration::from_secs(2);
const CONNECT: Duration = Duration::from_secs(1);
/// Longest pause between two attempts to connect.
const PAUSE: Duration = Duration::from_secs(1);
/// Commands to a cluster that are under way at a time.
const AT_ONCE: usize = 64;
/// Commands of one pipeline: an answer to them takes a few milliseconds, and does not keep others waiting for longer.
const PIPELINE: usize = 200;

/// How the address of a cluster begins.
const CLUSTER: &str = "redis-cluster://";

/// The way to one server, or to a cluster of them. Clones share it.
#[derive(Clone)]
pub(super) struct Connection(Arc<Way>);

enum Way {
    One(Box<One>),
    Cluster(Box<Cluster>),
}

/// A server, and the connection that is made again when it breaks.
struct One {
    client: Client,
    /// And since when this one is tried.
    connection: Mutex<(ConnectionManager, Instant)>,
}

impl One {
    fn new(client: Client) -> RedisResult<Self> {
        let connection = Mutex::new((Self::connect(&client)?, Instant::now()));
        Ok(Self { client, connection })
    }

    /// Connects when it is first needed.
    fn connect(client: &Client) -> RedisResult<ConnectionManager> {
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(Some(CALL))
            .set_max_delay(PAUSE)
            .set_number_of_retries(1);
        ConnectionManager::new_lazy_with_config(client.clone(), config)
    }

    fn connection(&self) -> ConnectionManager {
        self.lock().0.clone()
    }

    fn lock(&self) -> MutexGuard<'_, (ConnectionManager, Instant)> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call has failed as a whole. The connection comes back by itself from what the network does, but keeps for ever what a
    /// server says to a newcomer: that its password is wrong, or that there are too many.
    fn failed(&self, error: &RedisError) {
        let mut connection = self.lock();
        if error.is_io_error() || connection.1.elapsed() < PAUSE {
            return;
        }
        if let Ok(another) = Self::connect(&self.client) {
            *connection = (another, Instant::now());
        }
    }
}

struct Cluster {
    client: ClusterClient,
    connection: OnceCell<ClusterConnection>,
}

impl Connection {
    /// Whether `url` is an address.
    pub(super) fn check_url(url: &str) -> Result<(), StoreError> {
        match url.strip_prefix(CLUSTER) {
            Some(servers) => ClusterClient::new(cluster(servers)).map(drop),
            None => Client::open(url).map(drop),
        }
        .map_err(StoreError::new)
    }

    /// Finds the way that `url` says: `redis://[user:password@]host:port[/database]`, or `redis-cluster://host:port,host:port`.
    /// Connects when it is first needed.
    pub(super) fn new(url: &str) -> Result<Self, StoreError> {
        let way = match url.strip_prefix(CLUSTER) {
            Some(servers) => {
                let builder = ClusterClient::builder(cluster(servers));
                let builder = builder.connection_timeout(CONNECT).response_timeout(CALL).retries(1);
                let client = builder.build().map_err(StoreError::new)?;
                Way::Cluster(Box::new(Cluster { client, connection: OnceCell::new() }))
            }
            None => {
                let one = Client::open(url).and_then(One::new);
                Way::One(Box::new(one.map_err(StoreError::new)?))
            }
        };
        Ok(Self(Arc::new(way)))
    }

    /// Sends commands, and has those again that call a script which the server does not know (any more).
    pub(super) async fn send(&self, commands: &[Cmd]) -> Vec<Result<Value, StoreError>> {
        let mut answers = Vec::with_capacity(commands.len());
        for commands in commands.chunks(PIPELINE) {
            answers.extend(self.send_some(commands).await);
        }
        answers.into_iter().map(|answer| answer.map_err(StoreError::new)).collect()
    }

    /// One command, and its answer as what it should be.
    pub(super) async fn ask<T: FromRedisValue>(&self, command: Cmd) -> Result<T, StoreError> {
        let answer = self.send(&[command]).await.pop().unwrap_or_else(|| Err(StoreError::new("no answer")))?;
        T::from_redis_value(answer).map_err(StoreError::new)
    }

    async fn send_some(&self, commands: &[Cmd]) -> Vec<RedisResult<Value>> {
        let mut answers = self.limited(commands).await;
        let unknown: Vec<_> =
            answers.iter().zip(0..).filter(|(answer, _)| is_unknown(answer)).map(|(_, at)| at).collect();
        if !unknown.is_empty() {
            self.limited(&scripts::load_all()).await;
            let again: Vec<_> = unknown.iter().filter_map(|&at: &usize| commands.get(at).cloned()).collect();
            for (at, answer) in unknown.into_iter().zip(self.limited(&again).await) {
                if let Some(place) = answers.get_mut(at) {
                    *place = answer;
                }
            }
        }
        answers
    }

    async fn limited(&self, commands: &[Cmd]) -> Vec<RedisResult<Value>> {
        let late = || RedisError::from((ErrorKind::Io, "no answer in time"));
        match timeout(CALL, self.pipelined(commands)).await {
            Ok(Ok(answers)) => answers,
            Ok(Err(error)) => commands.iter().map(|_| Err(error.clone())).collect(),
            Err(_) => commands.iter().map(|_| Err(late())).collect(),
        }
    }

    async fn pipelined(&self, commands: &[Cmd]) -> RedisResult<Vec<RedisResult<Value>>> {
        match &*self.0 {
            Way::One(one) => {
                let mut pipeline = Pipeline::with_capacity(commands.len());
                for command in commands {
                    pipeline.add_command(command.clone());
                }
                let answers = one.connection().req_packed_commands(&pipeline, 0, commands.len()).await;
                let answers = answers.inspect_err(|error| one.failed(error))?;
                Ok(answers.into_iter().map(Value::extract_error).collect())
            }
            // Each command finds its server; those for one server share its connection and do not wait for each other.
            Way::Cluster(cluster) => {
                let Cluster { client, connection } = &**cluster;
                let connection = connection.get_or_try_init(|| client.get_async_connection()).await?;
                let ask = async |command: &Cmd| connection.clone().req_packed_command(command).await?.extract_error();
                Ok(stream::iter(commands).map(ask).buffered(AT_ONCE).collect().await)
            }
        }
    }
}

fn cluster(servers: &str) -> Vec<String> {
    servers.split(',').map(|server| format!("redis://{server}")).collect()
}

fn is_unknown(answer: &RedisResult<Value>) -> bool {
    matches!(answer, Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
}
