//! Asks, again and again.

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
use crate::following::{News, Teller};

/// An answer counts as valid for as many of the longest times between two questions at most.
const VALID_AT_MOST: u32 = 10;

/// Asks DNS, and tells what it says.
pub(crate) struct Poller {
    query: DnsQuery,
    settings: DnsSettings,
    teller: Teller,
    /// Made anew after a failure: the system's configuration may have changed.
    resolver: Option<TokioResolver>,
    backoff: Backoff,
    /// The most records of one answer that were no nodes.
    passed_over: usize,
}

/// What DNS said, and how long it holds.
struct Answer {
    named: Named,
    valid_until: Instant,
}

impl Poller {
    pub(crate) fn new(query: DnsQuery, settings: DnsSettings, teller: Teller) -> Self {
        let backoff = Backoff::new(settings.shortest, settings.longest.min(10 * settings.shortest));
        Self { query, settings, teller, resolver: None, backoff, passed_over: 0 }
    }

    /// Asks until it is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            let wait = self.look().await;
            sleep(wait).await;
        }
    }

    /// Asks once and returns the time to the next query.
    async fn look(&mut self) -> Duration {
        let limit = self.settings.answer;
        let asked = timeout(limit, self.ask()).await;
        match asked.unwrap_or_else(|_| Err(ReadError::NoAnswer(format!("nothing came for {limit:?}")))) {
            Ok(answer) => {
                self.backoff.reset();
                self.pass_over(&answer.named.passed_over);
                // Until then a server between may give the same answer again.
                let until = answer.valid_until.min(Instant::now() + VALID_AT_MOST * self.settings.longest);
                self.teller.tell(News::Seen { observations: answer.named.observations, until: Some(until) }).await;
                self.teller.tell(News::Works).await;
                let left = answer.valid_until.saturating_duration_since(Instant::now());
                left.clamp(self.settings.shortest, self.settings.longest)
            }
            Err(trouble) => {
                self.resolver = None;
                let wait = self.backoff.next_wait(rand::random());
                debug!(%trouble, ?wait, "asks again");
                self.teller.tell(News::Failed(trouble)).await;
                wait
            }
        }
    }

    /// Answers may take turns in what is wrong with them, so only more than ever before is worth a line.
    fn pass_over(&mut self, records: &[String]) {
        if let Some(first) = records.first().filter(|_| records.len() > self.passed_over) {
            self.passed_over = records.len();
            warn!(query = %self.query, records = records.len(), %first, "some records name no nodes: they are passed over");
        }
    }

    async fn ask(&mut self) -> Result<Answer, ReadError> {
        let resolver = match self.resolver.take() {
            Some(resolver) => resolver,
            None => resolver(&self.settings).map_err(|error| ReadError::NoAnswer(error.to_string()))?,
        };
        let resolver = &*self.resolver.insert(resolver);
        match &self.query {
            DnsQuery::Addresses { name, port } => {
                let mut found = records(resolver, name, RecordType::A).await?;
                // Only where there is none of the other family: a node would else have two ids.
                if found.0.is_empty() {
                    found = records(resolver, name, RecordType::AAAA).await?;
                }
                Ok(Answer { named: records::by_address(&found.0, *port), valid_until: found.1 })
            }
            DnsQuery::Services { name } => {
                let (found, valid_until) = records(resolver, name, RecordType::SRV).await?;
                Ok(Answer { named: records::by_service(&found), valid_until })
            }
        }
    }
}

/// The records of a type; none if the name has none, or is not there.
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

/// One that remembers nothing: what is asked is asked when it has expired.
fn resolver(settings: &DnsSettings) -> Result<TokioResolver, NetError> {
    let mut builder = if settings.servers.is_empty() {
        TokioResolver::builder_tokio()?
    } else {
        let servers = settings.servers.iter().map(|server| {
            let (mut udp, mut tcp) = (ConnectionConfig::udp(), ConnectionConfig::tcp());
            (udp.port, tcp.port) = (server.port(), server.port());
            NameServerConfig::new(server.ip(), true, vec![udp, tcp])
        });
        let config = ResolverConfig::from_name_servers(servers.collect());
        TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
    };
    builder.options_mut().cache_size = 0;
    builder.build()
}
