//! The other nodes of the view, asked what operators ask this one.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use http::{Method, StatusCode, header};
use serde::de::DeserializeOwned;
use signaling_admin::Missing;
use signaling_discovery::{Member, View};
use signaling_protocol::NodeId;
use signaling_server::Secrets;
use signaling_server::admin::BETWEEN_SERVERS;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

/// Nodes that are asked at the same time.
const AT_ONCE: usize = 16;
/// How long one node may take: it has what is asked for in memory.
const ONE_WITHIN: Duration = Duration::from_secs(2);
/// How long all of them may take.
const ALL_WITHIN: Duration = Duration::from_secs(5);
/// A page of a thousand clients comes to less.
const LONGEST_ANSWER: usize = 4 * 1024 * 1024;

/// The way to the other nodes.
#[derive(Clone)]
pub struct Others {
    /// This one.
    pub own: NodeId,
    /// What they are asked with.
    pub http: reqwest::Client,
    /// Who they are.
    pub views: watch::Receiver<Arc<View>>,
    /// What they ask for.
    pub secrets: Secrets,
}

/// What a node answered.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
}

impl Others {
    pub(super) fn view(&self) -> Arc<View> {
        self.views.borrow().clone()
    }

    /// Asks all other nodes for `PATH`, as an operator would under `/admin`. Those that do not answer as they should are named.
    pub(super) async fn ask<T>(&self, method: Method, path: &str) -> (Vec<(NodeId, T)>, Vec<Missing>)
    where
        T: DeserializeOwned + Send + 'static,
    {
        self.ask_those(&self.view(), method, path).await
    }

    /// Asks all other nodes of a view.
    pub(super) async fn ask_those<T>(&self, view: &View, method: Method, path: &str) -> (Vec<(NodeId, T)>, Vec<Missing>)
    where
        T: DeserializeOwned + Send + 'static,
    {
        let mut waiting = view.members().iter().filter(|member| member.id != self.own).cloned();
        let mut asked = JoinSet::new();
        let (mut answers, mut missing) = (Vec::new(), Vec::new());
        let deadline = Instant::now() + ALL_WITHIN;
        let mut silent: Vec<NodeId> = Vec::new();
        loop {
            while asked.len() < AT_ONCE
                && let Some(member) = waiting.next()
            {
                let (this, method, path) = (self.clone(), method.clone(), path.to_owned());
                silent.push(member.id.clone());
                asked.spawn(async move { (member.id.clone(), this.read(&member, method, &path).await) });
            }
            match timeout_at(deadline, asked.join_next()).await {
                Ok(Some(Ok((node, answer)))) => {
                    silent.retain(|other| *other != node);
                    match answer {
                        Ok(answer) => answers.push((node, answer)),
                        Err(why) => missing.push(Missing { node: node.as_str().to_owned(), why }),
                    }
                }
                Ok(Some(Err(_))) => {}
                Ok(None) | Err(_) => break,
            }
        }
        let late = silent.into_iter().chain(waiting.map(|member| member.id));
        let late =
            late.map(|node| Missing { node: node.as_str().to_owned(), why: "there was no time left".to_owned() });
        missing.extend(late);
        missing.sort_by(|a, b| a.node.cmp(&b.node));
        (answers, missing)
    }

    /// Asks one node, and gives on whatever it says.
    pub(super) async fn ask_one(&self, member: &Member, method: Method, path: &str) -> Result<Answer, String> {
        let asking = async {
            let request = self
                .http
                .request(method, format!("http://{}{BETWEEN_SERVERS}/{path}", member.address))
                .header(header::AUTHORIZATION, self.secrets.shown().bearer());
            let mut response = request.send().await.map_err(|error| why(&error))?;
            let (status, mut body) = (response.status(), BytesMut::new());
            while let Some(chunk) = response.chunk().await.map_err(|error| why(&error))? {
                body.extend_from_slice(&chunk);
                if body.len() > LONGEST_ANSWER {
                    return Err("its answer is too long".to_owned());
                }
            }
            Ok(Answer { status, body: body.to_vec() })
        };
        timeout(ONE_WITHIN, asking).await.unwrap_or_else(|_| Err(format!("no answer within {ONE_WITHIN:?}")))
    }

    async fn read<T: DeserializeOwned>(&self, member: &Member, method: Method, path: &str) -> Result<T, String> {
        let Answer { status, body } = self.ask_one(member, method, path).await?;
        if status != StatusCode::OK {
            return Err(format!("it answers {status}"));
        }
        serde_json::from_slice(&body).map_err(|error| format!("its answer makes no sense: {error}"))
    }
}

/// Without the address, which stands in the list of nodes.
fn why(error: &reqwest::Error) -> String {
    if error.is_connect() {
        "it takes no connections".to_owned()
    } else if error.is_timeout() {
        "it does not answer".to_owned()
    } else {
        "the connection failed".to_owned()
    }
}
