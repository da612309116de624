//! Task that resolves a name periodically and reports to `Following`. [`crate::watch()`] runs it.

use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{Record, RecordType};
use signaling_protocol::Backoff;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::records::{self, Named};
use super::{DnsQuery, DnsSettings};
use crate::ReadError;
use crate::following::{News, NewsSender};

/// Maximum validity of an answer, in multiples of the maximum query interval.
const MAX_VALIDITY_INTERVALS: u32 = 10;

/// Resolver of one name. Sends its answers and errors as [`News`].
pub(crate) struct Poller {
    query: DnsQuery,
    settings: DnsSettings,
    sender: NewsSender,
    /// Rebuilt after a failure, since the system's configuration may have changed.
    resolver: Option<TokioResolver>,
    backoff: Backoff,
    /// Maximum number of ignored records in one answer so far.
    ignored: usize,
}

impl Poller {
    pub(crate) fn new(query: DnsQuery, settings: DnsSettings, sender: NewsSender) -> Self {
        let backoff = Backoff::new(settings.min_interval, settings.max_interval.min(10 * settings.min_interval));
        Self { query, settings, sender, resolver: None, backoff, ignored: 0 }
    }

    pub(crate) async fn run(mut self) {
        loop {
            let wait = self.poll().await;
            sleep(wait).await;
        }
    }

    async fn poll(&mut self) -> Duration {
        let limit = self.settings.answer_timeout;
        let answer = timeout(limit, self.query()).await;
        match answer.unwrap_or_else(|_| Err(ReadError::NoAnswer(format!("none within {limit:?}")))) {
            Ok((named, valid_until)) => {
                self.backoff.reset();
                self.warn_of_ignored(&named.ignored);
                // Until then a caching server may repeat the answer.
                let until = valid_until.min(Instant::now() + MAX_VALIDITY_INTERVALS * self.settings.max_interval);
                self.sender.send(News::Seen { observations: named.observations, until: Some(until) }).await;
                self.sender.send(News::Working).await;
                let left = valid_until.saturating_duration_since(Instant::now());
                left.clamp(self.settings.min_interval, self.settings.max_interval)
            }
            Err(error) => {
                self.resolver = None;
                let wait = self.backoff.next_wait(rand::random());
                debug!(%error, ?wait, "query scheduled");
                self.sender.send(News::Failed(error)).await;
                wait
            }
        }
    }

    /// Logs only a new maximum of ignored records, since answers may differ in their faults.
    fn warn_of_ignored(&mut self, records: &[String]) {
        if let Some(first) = records.first().filter(|_| records.len() > self.ignored) {
            self.ignored = records.len();
            warn!(query = %self.query, records = records.len(), %first, "records ignored, they name no valid node");
        }
    }

    async fn query(&mut self) -> Result<(Named, Instant), ReadError> {
        let resolver = match self.resolver.take() {
            Some(resolver) => resolver,
            None => resolver(&self.settings).map_err(|error| ReadError::NoAnswer(error.to_string()))?,
        };
        let resolver = &*self.resolver.insert(resolver);
        let name = &self.query.name;
        let Some(port) = self.query.port else {
            let (found, valid_until) = records(resolver, name, RecordType::SRV).await?;
            return Ok((records::by_service(&found), valid_until));
        };
        let mut found = records(resolver, name, RecordType::A).await?;
        // AAAA only without A records: otherwise a node would have two ids.
        if found.0.is_empty() {
            found = records(resolver, name, RecordType::AAAA).await?;
        }
        Ok((records::by_address(&found.0, port), found.1))
    }
}

/// Returns the records of a type and the end of their validity. A missing name has no records.
async fn records(
    resolver: &TokioResolver,
    name: &str,
    record_type: RecordType,
) -> Result<(Vec<Record>, Instant), ReadError> {
    match resolver.lookup(name, record_type).await {
        Ok(lookup) => Ok((lookup.answers().to_vec(), lookup.valid_until())),
        Err(error) if error.is_no_records_found() => Ok((Vec::new(), Instant::now())),
        Err(error) => Err(ReadError::NoAnswer(error.to_string())),
    }
}

/// Creates a resolver without a cache, since each query is sent when the last answer expires.
fn resolver(settings: &DnsSettings) -> Result<TokioResolver, NetError> {
    let mut builder = if settings.servers.is_empty() {
        TokioResolver::builder_tokio()?
    } else {
        let servers = settings.servers.iter().map(|server| {
            let mut udp = ConnectionConfig::udp();
            udp.port = server.port();
            NameServerConfig::new(server.ip(), true, vec![udp])
        });
        let config = ResolverConfig::from_name_servers(servers.collect());
        TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
    };
    builder.options_mut().cache_size = 0;
    builder.build()
}
