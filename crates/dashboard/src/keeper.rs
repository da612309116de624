//! The task of each server that looks how things stand there, notes what has changed, and answers who asks.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use signaling_discovery::{Discovery, Member, View};
use signaling_protocol::NodeId;
use signaling_server::{Health, process};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::chronicle::{Chronicle, Flow, Standing};
use crate::status::{Figures, Process, Role, Status, ViewStatus, ViewedNode};

/// How often to look, whether or not anybody asks.
const LOOK: Duration = Duration::from_millis(500);
/// Questions that wait, at most: answering one takes microseconds.
const QUESTIONS: usize = 64;

/// What a server is.
#[derive(Debug, Clone)]
pub struct About {
    /// Its stable name.
    pub id: NodeId,
    /// What it does in the mesh.
    pub role: Role,
    /// From which age of its view on something must be wrong with the source; none if that is never read again.
    pub stale_after: Option<Duration>,
}

/// How things stand at a server, beside what every server can tell.
#[derive(Debug, Default)]
pub struct Report {
    /// How much it does.
    pub figures: Figures,
    /// Nodes that it does not rely on, in any order.
    pub suspects: Vec<NodeId>,
    /// Clients that it has sent from node to node so far.
    pub flows: Vec<Flow>,
}

/// Where a server is asked how things stand. A cheap clone asks the same.
#[derive(Clone)]
pub struct Keeper {
    about: About,
    questions: mpsc::Sender<oneshot::Sender<Status>>,
    news: watch::Receiver<()>,
}

impl Keeper {
    /// A keeper, and its task, which asks `report` twice a second: run it on the thread of what that looks at. It ends when views
    /// end.
    pub fn new(
        about: About,
        health: Health,
        discovery: Rc<Discovery>,
        report: impl Fn() -> Report + 'static,
    ) -> (Self, impl Future<Output = ()> + 'static) {
        let (ask, questions) = mpsc::channel(QUESTIONS);
        let (tell, news) = watch::channel(());
        let keeper = Self { about: about.clone(), questions: ask, news };
        let desk = Desk { about, health, discovery, report, started_ms: now_ms(), chronicle: Chronicle::default() };
        (keeper, desk.keep(questions, tell))
    }

    /// The server's name.
    #[must_use]
    pub fn id(&self) -> &NodeId {
        &self.about.id
    }

    /// How things stand now; nothing if the server ends.
    pub async fn status(&self) -> Option<Status> {
        let (answer, answered) = oneshot::channel();
        self.questions.send(answer).await.ok()?;
        answered.await.ok()
    }

    /// A receiver that is told whenever anything has happened.
    #[must_use]
    pub fn news(&self) -> watch::Receiver<()> {
        self.news.clone()
    }
}

/// What the task has.
struct Desk<F> {
    about: About,
    health: Health,
    discovery: Rc<Discovery>,
    report: F,
    started_ms: u64,
    chronicle: Chronicle,
}

impl<F: Fn() -> Report> Desk<F> {
    async fn keep(mut self, mut questions: mpsc::Receiver<oneshot::Sender<Status>>, tell: watch::Sender<()>) {
        let mut views = self.discovery.subscribe();
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let question = tokio::select! {
                _ = looks.tick() => None,
                changed = views.changed() => match changed {
                    Ok(()) => None,
                    Err(_) => return,
                },
                Some(question) = questions.recv() => Some(question),
            };
            let view = views.borrow_and_update().clone();
            let (figures, is_news) = self.look(&view);
            if is_news {
                tell.send_replace(());
            }
            if let Some(question) = question {
                // Whoever asked may be gone.
                let _ = question.send(self.status(&view, figures));
            }
        }
    }

    fn look(&mut self, view: &Arc<View>) -> ((Figures, Vec<NodeId>), bool) {
        let Report { figures, mut suspects, flows } = (self.report)();
        suspects.sort_unstable();
        let standing = Standing {
            view: view.clone(),
            obstacle: self.health.obstacle(),
            is_stale: self.is_stale(),
            suspects: suspects.clone(),
            flows,
        };
        let is_news = self.chronicle.observe(now_ms(), standing);
        ((figures, suspects), is_news)
    }

    fn is_stale(&self) -> bool {
        self.about.stale_after.is_some_and(|limit| self.discovery.age() > limit)
    }

    fn status(&self, view: &View, (figures, suspects): (Figures, Vec<NodeId>)) -> Status {
        let node = |member: &Member| ViewedNode {
            id: member.id.clone(),
            address: member.address.to_string(),
            draining: member.draining,
        };
        Status {
            id: self.about.id.clone(),
            role: self.about.role,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_ms: self.started_ms,
            obstacle: self.health.obstacle().map(str::to_owned),
            view: ViewStatus {
                hash: format!("{:016x}", view.hash()),
                age_ms: millis(self.discovery.age()),
                is_stale: self.is_stale(),
                nodes: view.members().iter().map(node).collect(),
            },
            suspects,
            figures,
            process: Process {
                cpu_us: process::cpu().map_or(0, |cpu| u64::try_from(cpu.as_micros()).unwrap_or(u64::MAX)),
                resident_bytes: process::resident_bytes().unwrap_or_default(),
            },
            happenings: self.chronicle.happenings(),
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use std::cell::RefCell;

    use crate::status::What;

    use super::*;

    #[tokio::test]
    async fn what_is_asked_and_what_has_happened_is_as_new_as_the_question() {
        let source = "static:node-0=127.0.0.1:1,node-1=127.0.0.1:2".parse().unwrap();
        let discovery = Rc::new(signaling_discovery::watch(source).await.unwrap());
        let (health, suspects) = (Health::new(), Rc::new(RefCell::new(Vec::new())));
        let about = About { id: NodeId::new("node-0").unwrap(), role: Role::Node, stale_after: None };
        let seen = Rc::clone(&suspects);
        let report = move || Report { suspects: seen.borrow().clone(), ..Report::default() };
        let (keeper, task) = Keeper::new(about, health.clone(), discovery, report);
        let questions = async {
            let first = keeper.status().await.unwrap();
            assert_eq!((first.obstacle.as_deref(), first.view.nodes.len()), (Some("starting"), 2));
            assert!(first.process.cpu_us > 0);
            health.set_ready(true, "");
            let node = NodeId::new("node-1").unwrap();
            suspects.borrow_mut().push(node.clone());
            let mut news = keeper.news();
            news.mark_unchanged();
            let second = keeper.status().await.unwrap();
            assert!(news.has_changed().unwrap());
            assert_eq!(second.started_ms, first.started_ms);
            let happened: Vec<_> = second.happenings.into_iter().map(|happening| happening.what).collect();
            assert_eq!(happened, [What::Started, What::Ready, What::Suspects { node }]);
        };
        tokio::select! {
            () = questions => {}
            () = task => panic!("the keeper has ended"),
        }
    }
}
