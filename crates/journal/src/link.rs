//! One fresh connection to a server that can serve. `writer` opens and replaces it.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use redis::aio::{ConnectionLike as _, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::sentinel::Sentinel;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue as _, Pipeline, RedisError, RedisResult, Role,
    ServerErrorKind, Value,
};
use tokio::time::timeout;

use super::address::{Address, CONNECT_TIMEOUT, Sentinels};

/// Limit of the time in which commands are answered.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum commands in flight to a cluster.
const MAX_CLUSTER_COMMANDS: usize = 64;

/// An established connection. Clones share it.
#[derive(Clone)]
pub(super) enum Link {
    /// To one server, which is not a replica.
    One(MultiplexedConnection),
    /// To all servers of a cluster.
    Cluster(ClusterConnection),
}

impl Link {
    /// Connects and checks the server, within 1 s, or 2 s for a cluster or sentinels. Fails without
    /// an answer in this time, or if the server is a replica. Asks sentinels for the master.
    pub(super) async fn open(address: &Address) -> RedisResult<Self> {
        match address {
            Address::One(client) => limited(CONNECT_TIMEOUT, Self::open_one(client)).await,
            Address::Cluster(client) => limited(CALL_TIMEOUT, client.get_async_connection()).await.map(Self::Cluster),
            // Allows time for one attempt at a failed sentinel.
            Address::Sentinel(sentinels) => limited(CALL_TIMEOUT, Self::open_master(sentinels)).await,
        }
    }

    async fn open_master(Sentinels { sentinels, master, server }: &Sentinels) -> RedisResult<Self> {
        let mut sentinels = Sentinel::build(sentinels.clone())?;
        Self::open_one(&sentinels.async_master_for(master, Some(server)).await?).await
    }

    /// Opens and configures a connection to one server.
    async fn open_one(client: &Client) -> RedisResult<Self> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(CALL_TIMEOUT));
        let link = Self::One(client.get_multiplexed_async_connection_with_config(&config).await?);
        link.check().await?;
        Ok(link)
    }

    /// Fails if the server does not answer in 2 s or is a replica. Refused commands are no failure.
    /// Always succeeds for a cluster, whose client checks this itself.
    pub(super) async fn check(&self) -> RedisResult<()> {
        if matches!(self, Self::Cluster(_)) {
            return Ok(());
        }
        let answers = self.send(&[redis::cmd("PING"), redis::cmd("ROLE")]).await?;
        let mut answers = answers.into_iter();
        if let Some(Err(error)) = answers.next()
            && !may_pass(&error)
        {
            return Err(error);
        }
        let role = answers.next().and_then(Result::ok).map(Role::from_redis_value);
        if matches!(role, Some(Ok(Role::Replica { .. }))) {
            let kind = ErrorKind::Server(ServerErrorKind::ReadOnly);
            return Err(RedisError::from((kind, "the server is a replica")));
        }
        Ok(())
    }

    /// Sends commands, and returns the answer to each. Fails as a whole without answers in 2 s.
    pub(super) async fn send(&self, commands: &[Cmd]) -> RedisResult<Vec<RedisResult<Value>>> {
        limited(CALL_TIMEOUT, self.send_all(commands)).await
    }

    async fn send_all(&self, commands: &[Cmd]) -> RedisResult<Vec<RedisResult<Value>>> {
        match self {
            Self::One(connection) => {
                let mut pipeline = Pipeline::with_capacity(commands.len());
                for command in commands {
                    pipeline.add_command(command.clone());
                }
                let count = commands.len();
                let answers = connection.clone().req_packed_commands(&pipeline, 0, count).await?;
                Ok(answers.into_iter().map(Value::extract_error).collect())
            }
            // Each command is routed to its server. Commands for one server are pipelined.
            Self::Cluster(connection) => {
                let ask = async |command: &Cmd| connection.clone().req_packed_command(command).await?.extract_error();
                Ok(stream::iter(commands).map(ask).buffered(MAX_CLUSTER_COMMANDS).collect().await)
            }
        }
    }
}

/// A user may lack the permission for `PING`, and a proxy may not implement it.
fn may_pass(error: &RedisError) -> bool {
    use ServerErrorKind::{NoPerm, ResponseError};
    matches!(error.kind(), ErrorKind::Server(NoPerm | ResponseError))
}

async fn limited<T>(limit: Duration, work: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    let late = || RedisError::from((ErrorKind::Io, "no answer in time"));
    timeout(limit, work).await.unwrap_or_else(|_| Err(late()))
}
