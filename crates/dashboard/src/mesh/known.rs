//! What is known of one server.

use std::time::{Duration, Instant};

use signaling_protocol::NodeId;

use super::{Failure, P99};
use crate::delays::{Window, quantile};
use crate::keeper::millis;
use crate::snapshot::{Server, State};
use crate::status::{EdgeFigures, Role, Status, Totals, What};

/// What a server says of itself while it drains.
const DRAINING: &str = "draining";

/// What is known of one server.
#[derive(Debug)]
pub(super) struct Known {
    /// Where its internal listener is, if that is known.
    pub(super) address: Option<String>,
    pub(super) delays: Window,
    role: Role,
    latest: Option<Sample>,
    /// The answer before that, if the same process gave it.
    before: Option<Sample>,
    /// Since when it does not answer: its last answer, or its first mention.
    silent_since: Option<Instant>,
    failure: Option<Failure>,
    /// Questions in a row without an answer.
    misses: u32,
    /// Whether its silence was told.
    is_told: bool,
    other_view_since: Option<Instant>,
}

#[derive(Debug)]
struct Sample {
    at: Instant,
    status: Status,
}

impl Known {
    /// One that was never asked.
    pub(super) fn new(role: Role, now: Instant) -> Self {
        Self {
            address: None,
            delays: Window::default(),
            role,
            latest: None,
            before: None,
            silent_since: Some(now),
            failure: None,
            misses: 0,
            is_told: false,
            other_view_since: None,
        }
    }

    /// Takes in an answer, or that there is none. Says what that shows.
    pub(super) fn take(&mut self, at: Instant, answer: Result<Status, Failure>, id: NodeId) -> Option<What> {
        match answer {
            Ok(status) if status.id == id => self.answered(at, status, id),
            Ok(status) => self.missed(at, Failure::Nonsense(format!("{} answers there", status.id)), id),
            Err(failure) => self.missed(at, failure, id),
        }
    }

    fn answered(&mut self, at: Instant, status: Status, id: NodeId) -> Option<What> {
        let latest = self.latest.take();
        let is_another = latest.as_ref().is_some_and(|latest| latest.status.started_ms != status.started_ms);
        if is_another {
            self.delays.clear();
        }
        self.before = latest.filter(|_| !is_another);
        self.role = status.role;
        self.delays.take(at, status.figures.delays.iter().copied());
        self.latest = Some(Sample { at, status });
        (self.silent_since, self.failure, self.misses) = (None, None, 0);
        match (is_another, std::mem::take(&mut self.is_told)) {
            (true, _) => Some(What::Restarted { node: id }),
            (false, true) => Some(What::Answers { node: id }),
            (false, false) => None,
        }
    }

    fn missed(&mut self, at: Instant, failure: Failure, id: NodeId) -> Option<What> {
        self.misses = self.misses.saturating_add(1);
        // One late answer is no news; and to a balancer that never answered, there may be no way from here.
        let is_sure = failure == Failure::Unreachable || self.misses > 1;
        let should_answer = self.latest.is_some() || self.role == Role::Node;
        self.silent_since.get_or_insert(self.latest.as_ref().map_or(at, |latest| latest.at));
        self.failure = Some(failure);
        if self.is_told || !is_sure || !should_answer {
            return None;
        }
        self.is_told = true;
        let was_draining =
            self.latest.as_ref().is_some_and(|latest| latest.status.obstacle.as_deref() == Some(DRAINING));
        Some(if was_draining { What::Stopped { node: id } } else { What::Silent { node: id } })
    }

    /// Its last answer, unless it has been silent since.
    pub(super) fn answer(&self) -> Option<&Status> {
        self.latest().filter(|_| self.silent_since.is_none())
    }

    /// Its last answer.
    pub(super) fn latest(&self) -> Option<&Status> {
        Some(&self.latest.as_ref()?.status)
    }

    /// For how long it has been silent.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        self.silent_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Notes whether its view is the one with this hash.
    pub(super) fn compare_view(&mut self, at: Instant, hash: &str) {
        let differs = self.answer().is_some_and(|status| status.view.hash != hash);
        self.other_view_since = if differs { Some(self.other_view_since.unwrap_or(at)) } else { None };
    }

    /// How fast a count grows, a second.
    pub(super) fn rate(&self, of: impl Fn(&Totals) -> u64) -> Option<f64> {
        self.growth(|status| Some(of(&status.figures.totals)))
    }

    /// What it knows of a balancer, and how many messages a second come by that.
    pub(super) fn edge(&self, balancer: &NodeId) -> Option<(&EdgeFigures, Option<f64>)> {
        let of =
            |status: &Status| status.figures.edges.iter().find(|edge| edge.id == *balancer).map(|edge| edge.messages);
        let edge = self.answer()?.figures.edges.iter().find(|edge| edge.id == *balancer)?;
        Some((edge, self.growth(of)))
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn growth(&self, of: impl Fn(&Status) -> Option<u64>) -> Option<f64> {
        let (before, latest) = (self.before.as_ref()?, self.latest.as_ref().filter(|_| self.silent_since.is_none())?);
        let seconds = latest.at.saturating_duration_since(before.at).as_secs_f64();
        let grown = of(&latest.status)?.saturating_sub(of(&before.status)?);
        (seconds > 0.0).then(|| grown as f64 / seconds)
    }

    /// How it is, given whether anybody names it, and whether it drains by the view.
    pub(super) fn state(&self, at: Instant, is_named: bool, drains: bool) -> State {
        let silent_ms = millis(self.silence(at));
        match (self.silent_since, self.latest()) {
            (None, Some(status)) => match status.obstacle.as_deref() {
                Some(DRAINING) => State::Draining,
                Some(why) => State::Unready { why: why.to_owned() },
                None if drains => State::Draining,
                None => State::Serving,
            },
            _ if !is_named => State::Gone { silent_ms },
            _ => State::Silent {
                silent_ms,
                why: self.failure.as_ref().map_or("not asked yet".to_owned(), Failure::to_string),
            },
        }
    }

    /// Its part of the picture, but for who suspects it.
    pub(super) fn server(&self, id: &NodeId, at_ms: u64, state: State) -> Server {
        let none = Status::nothing_of(id.clone(), self.role);
        let status = self.latest().unwrap_or(&none);
        let figures = &status.figures;
        // A view that was last told long ago is no news.
        let is_answer = self.silent_since.is_none();
        Server {
            id: id.clone(),
            role: self.role,
            state,
            suspected_by: Vec::new(),
            other_view_ms: None,
            is_stale: is_answer && status.view.is_stale,
            discovery_age_ms: status.view.age_ms,
            version: status.version.clone(),
            up_ms: self.latest.as_ref().map(|_| at_ms.saturating_sub(status.started_ms)),
            clients: figures.clients,
            direct_clients: figures.direct_clients,
            lingering: figures.lingering,
            rooms: figures.rooms,
            seats: figures.seats,
            messages_per_s: self.rate(|totals| totals.messages),
            delivered_per_s: self.rate(|totals| totals.delivered),
            cpu: self.growth(|status| Some(status.process.cpu_us)).map(|micros| micros / 1e6),
            resident_bytes: status.process.resident_bytes,
            p99_us: quantile(&self.delays.counts(), P99).filter(|_| is_answer),
        }
    }

    /// For how long its view has been another, in milliseconds.
    pub(super) fn other_view_ms(&self, at: Instant) -> Option<u64> {
        self.other_view_since.map(|since| millis(at.saturating_duration_since(since)))
    }
}
