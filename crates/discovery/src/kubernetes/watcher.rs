//! Task that lists and watches the EndpointSlices of a service and reports to `Following`.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use signaling_protocol::Backoff;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, info, warn};

use super::api::{connect, read_error, status_error};
use super::breaks::Breaks;
use super::slices::Slices;
use super::{KubernetesSettings, ServicePort};
use crate::following::{News, NewsSender};
use crate::{ReadError, SourceError};

/// Reader of the API server. Sends its answers and errors as [`News`].
pub(crate) struct Watcher {
    api: Api<EndpointSlice>,
    selector: String,
    settings: KubernetesSettings,
    sender: NewsSender,
    slices: Slices,
    /// Number of ignored endpoints at the latest report. A higher one is logged.
    ignored: usize,
    backoff: Backoff,
    /// `true` while a watch runs that has reached `KubernetesSettings::proven_after`: it works.
    is_proven: bool,
    breaks: Breaks,
}

impl Watcher {
    /// Creates a watcher that sends its reports to `sender`. An error means that this process has
    /// no usable configuration for the access to the API.
    pub(crate) async fn new(
        service: ServicePort,
        settings: &KubernetesSettings,
        sender: NewsSender,
    ) -> Result<Self, SourceError> {
        Ok(Self {
            api: connect(&service, settings).await?,
            selector: format!("kubernetes.io/service-name={}", service.service),
            settings: settings.clone(),
            sender,
            slices: Slices::new(service.port),
            ignored: 0,
            backoff: Backoff::new(settings.min_backoff, settings.max_backoff),
            is_proven: false,
            breaks: Breaks::default(),
        })
    }

    pub(crate) async fn run(mut self) {
        loop {
            match self.list_and_watch().await {
                Ok(()) => debug!("list is due"),
                Err(error) => {
                    if std::mem::take(&mut self.is_proven) && self.breaks.record_break() {
                        warn!(
                            selector = %self.selector,
                            %error,
                            "working watches break repeatedly, changes may arrive late"
                        );
                    }
                    let wait = self.backoff.next_wait(rand::random());
                    debug!(%error, ?wait, "list scheduled");
                    self.sender.send(News::Failed(error)).await;
                    sleep(wait).await;
                }
            }
        }
    }

    async fn list_and_watch(&mut self) -> Result<(), ReadError> {
        let mut version = self.list().await?;
        let resync = Instant::now() + self.settings.resync_interval.mul_f64(0.8 + 0.4 * rand::random::<f64>());
        while Instant::now() < resync {
            version = self.watch(version).await?;
        }
        Ok(())
    }

    async fn list(&mut self) -> Result<String, ReadError> {
        // A list without a requested version is current. Others may come from a server's cache.
        let params = ListParams::default().labels(&self.selector);
        let list = answer(self.settings.answer_timeout, self.api.list(&params)).await?;
        let version = list.metadata.resource_version.filter(|version| !version.is_empty());
        let version = version.ok_or_else(|| ReadError::NoAnswer("a list without a resourceVersion".into()))?;
        self.slices.replace(&list.items);
        self.send_observations().await;
        Ok(version)
    }

    /// Watches, and returns the version to continue from once the watch has ended in time.
    async fn watch(&mut self, mut version: String) -> Result<String, ReadError> {
        let start = Instant::now();
        let seconds = u32::try_from(self.settings.watch_duration.as_secs()).unwrap_or(u32::MAX).max(1);
        let params = WatchParams::default().labels(&self.selector).timeout(seconds);
        let mut events = pin!(answer(self.settings.answer_timeout, self.api.watch(&params, &version)).await?);
        self.sender.send(News::StillValid).await;
        let proven = start + self.settings.proven_after;
        let silent = start + self.settings.watch_duration + self.settings.silence_grace;
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => version = self.take(event).await?,
                    Some(Err(error)) => return Err(read_error(&error)),
                    None => break,
                },
                () = sleep_until(proven), if !self.is_proven => {
                    self.is_proven = true;
                    self.backoff.reset();
                    self.sender.send(News::Working).await;
                }
                () = sleep_until(silent) => {
                    return Err(ReadError::NoAnswer("a watch became silent".into()));
                }
            }
        }
        if !std::mem::take(&mut self.is_proven) {
            return Err(ReadError::NoAnswer(format!("a watch ended after {:?}", start.elapsed())));
        }
        if self.breaks.record_end_in_time() {
            info!(selector = %self.selector, "watches no longer break");
        }
        self.sender.send(News::StillValid).await;
        Ok(version)
    }

    async fn take(&mut self, event: WatchEvent<EndpointSlice>) -> Result<String, ReadError> {
        let slice = match event {
            WatchEvent::Added(slice) | WatchEvent::Modified(slice) => {
                self.slices.put(&slice);
                slice
            }
            WatchEvent::Deleted(slice) => {
                self.slices.remove(&slice);
                slice
            }
            WatchEvent::Bookmark(bookmark) => {
                self.sender.send(News::StillValid).await;
                return Ok(bookmark.metadata.resource_version);
            }
            WatchEvent::Error(status) => return Err(status_error(&status)),
        };
        self.send_observations().await;
        let version = slice.metadata.resource_version;
        version.ok_or_else(|| ReadError::NoAnswer("an event without a resourceVersion".into()))
    }

    async fn send_observations(&mut self) {
        let ignored = self.slices.ignored_count();
        if ignored > self.ignored {
            warn!(endpoints = ignored, "endpoints ignored, they lack a pod, an IP address or the named port");
        }
        self.ignored = ignored;
        self.sender.send(News::Seen { observations: self.slices.observations(), until: None }).await;
    }
}

async fn answer<T>(limit: Duration, request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, ReadError> {
    match timeout(limit, request).await {
        Ok(answer) => answer.map_err(|error| read_error(&error)),
        Err(_) => Err(ReadError::NoAnswer(format!("none within {limit:?}"))),
    }
}
