//! Asking all servers how things stand, for as long as somebody watches.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use reqwest::Url;
use signaling_protocol::NodeId;
use tokio::time::{Instant, sleep, sleep_until};

use crate::keeper::{Keeper, now_ms};
use crate::mesh::{Failure, Mesh, Round, Target};
use crate::status::Status;
use crate::watchers::Watchers;

/// Where a server answers.
pub(crate) const STATUS: &str = "/dashboard/status";
/// How often everybody is asked.
const EVERY: Duration = Duration::from_secs(1);
/// Rates need two looks: the second comes sooner.
const FIRST: Duration = Duration::from_millis(400);
/// News at this server has everybody asked sooner, but not sooner than this after the last time.
const AT_LEAST: Duration = Duration::from_millis(250);
/// Who has not answered by then is shown as silent. It leaves a second picture within two seconds of any event.
const ANSWER_WITHIN: Duration = Duration::from_millis(700);
/// How many are asked at once.
const AT_ONCE: usize = 64;
/// Largest status: a node that a thousand balancers come to.
const MAX_BYTES: usize = 512 * 1024;

/// What servers are asked with.
pub(crate) fn client() -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder()
        .no_proxy()
        .http1_only()
        .tcp_nodelay(true)
        .timeout(ANSWER_WITHIN)
        .pool_max_idle_per_host(1)
        .redirect(reqwest::redirect::Policy::none())
        .build()
}

/// Asks and tells the watchers, until there are none.
pub(crate) async fn collect(keeper: Keeper, http: reqwest::Client, watchers: Arc<Watchers>) {
    let mut mesh = Mesh::default();
    let mut news = keeper.news();
    let mut pause = FIRST;
    while !watchers.end_if_nobody_watches() {
        news.mark_unchanged();
        let began = Instant::now();
        let Some(own) = keeper.status().await else { return watchers.end() };
        let targets = mesh.targets(began.into_std(), &own);
        let asked = iter(targets).map(|target| ask(&http, target)).buffer_unordered(AT_ONCE);
        let answers = asked.collect().await;
        let round = Round { at: Instant::now().into_std(), at_ms: now_ms(), own, answers };
        if let Ok(snapshot) = serde_json::to_string(&mesh.take(round)) {
            watchers.tell(snapshot.into());
        }
        tokio::select! {
            () = sleep_until(began + pause) => {}
            Ok(()) = news.changed() => sleep(AT_LEAST.saturating_sub(began.elapsed())).await,
            () = watchers.nobody() => {}
        }
        pause = EVERY;
    }
}

async fn ask(http: &reqwest::Client, target: Target) -> (NodeId, Result<Status, Failure>) {
    let answer = fetch(http, &target.address).await;
    (target.id, answer)
}

async fn fetch(http: &reqwest::Client, address: &str) -> Result<Status, Failure> {
    let nonsense = |what: &str| Failure::Nonsense(what.to_owned());
    let url = Url::parse(&format!("http://{address}{STATUS}")).map_err(|_| nonsense("its address makes no URL"))?;
    let mut response = http.get(url).send().await.map_err(failure)?;
    if !response.status().is_success() {
        return Err(Failure::Nonsense(format!("answered {}", response.status())));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failure)? {
        if body.len() + chunk.len() > MAX_BYTES {
            return Err(nonsense("its answer is too long"));
        }
        body.extend_from_slice(&chunk);
    }
    serde_json::from_slice(&body).map_err(|error| Failure::Nonsense(format!("its answer makes no sense: {error}")))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failure(error: reqwest::Error) -> Failure {
    match (error.is_timeout(), error.is_connect()) {
        (true, _) => Failure::Late,
        (_, true) => Failure::Unreachable,
        _ => Failure::Nonsense("the connection broke".to_owned()),
    }
}
