//! Where clients go: the balancer's side of the edge. It places clients on links, and moves them when nodes come and go.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use signaling_core::edge::{ClientKey, EdgeCore, LinkKey, Refusal};
use signaling_edge::shell::{Backend, Edge};
use slotmap::SecondaryMap;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tracing::info;

use crate::carrier::TrunkConnection;
use signaling_core::balancer::moves::{HandoffScheduler, RebalanceSummary};
use signaling_core::balancer::placement::Placement;

/// Clients released in one turn. With [`TURN`] that is 20,000 a second: ten thousand move within a second, and what one turn
/// costs both nodes is too little for anybody else to notice.
pub const PER_TURN: usize = 100;
/// How often some are released.
pub const TURN: Duration = Duration::from_millis(5);

/// How long newcomers wait while the balancer is busy, and whatever goes by the clock: some four turns of its sockets.
const ALL_ELSE_WAITS: Duration = Duration::from_millis(2);

/// How long closing trunks may take.
const HANG_UP: Duration = Duration::from_millis(200);
/// How often to look whether they are closed.
const HANG_UP_LOOK: Duration = Duration::from_millis(5);

/// Where clients go, and who carries for them. A cheap clone shares it.
#[derive(Clone)]
pub struct BalancerBackend(Rc<Shared>);

struct Shared {
    state: RefCell<State>,
    /// Clients may wait for their handoff.
    planned: Notify,
    /// Something waits to be carried.
    waiting: Notify,
}

pub(crate) struct State {
    pub(crate) placement: Placement,
    pub(crate) carriers: SecondaryMap<LinkKey, TrunkConnection>,
    /// Somebody looks after what waits.
    is_waited_for: bool,
    /// This balancer ends: no trunk is opened any more.
    pub(crate) ends: bool,
    pub(crate) moves: HandoffScheduler,
}

impl State {
    /// When something that waits must be carried at the latest.
    fn waits_until(&self) -> Option<Instant> {
        self.carriers.values().filter_map(TrunkConnection::waits_until).min()
    }
}

impl BalancerBackend {
    /// No trunk yet. The seed is the same on all servers.
    #[must_use]
    pub fn new(hash_seed: u64) -> Self {
        let state = State {
            placement: Placement::new(hash_seed),
            carriers: SecondaryMap::new(),
            is_waited_for: false,
            ends: false,
            moves: HandoffScheduler::new(PER_TURN),
        };
        Self(Rc::new(Shared { state: RefCell::new(state), planned: Notify::new(), waiting: Notify::new() }))
    }

    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.0.state.borrow_mut())
    }

    /// Looks anew at who belongs where: finds places for clients without one, and leaves the others to the mover.
    pub(crate) fn rearrange(&self, edge: &Edge) {
        let now = Instant::now();
        edge.with_core(|core| {
            let (begins, homeless) = self
                .with(|State { placement, moves, .. }| (moves.plan(now, placement, core), placement.take_homeless()));
            if let Some(clients) = begins {
                info!(clients, of = core.len(), "clients begin to move to their new owners");
            }
            homeless.into_iter().for_each(|client| self.find_place(now, core, client));
        });
        self.0.planned.notify_one();
    }

    /// Closes all trunks for good and in good order, so that nodes do not take this balancer's end for a failure. Returns once they are
    /// closed, or have had time for it.
    pub async fn hang_up(&self, edge: &Edge) {
        self.with(|state| state.ends = true);
        edge.with_core(|core| self.give_up(core));
        let all_closed = async {
            while self.with(|state| !state.carriers.is_empty()) {
                sleep(HANG_UP_LOOK).await;
            }
        };
        // Whoever does not take it will see the end of the process.
        let _ = timeout(HANG_UP, all_closed).await;
    }

    fn give_up(&self, core: &mut EdgeCore) {
        self.with(|state| {
            state.placement.forget_links();
            for (link, carrier) in &mut state.carriers {
                core.link_down(link);
                carrier.give_up();
            }
        });
    }

    /// The mover: hands clients off to their new owners, some each turn. Ends when dropped.
    pub async fn move_clients(self, edge: Edge) {
        loop {
            self.0.planned.notified().await;
            let mut turns = interval(TURN);
            turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
            while !self.with(|state| state.moves.is_over()) {
                turns.tick().await;
                let over = edge.with_core(|core| {
                    self.with(|State { placement, moves, .. }| moves.turn(Instant::now(), placement, core))
                });
                if let Some(RebalanceSummary { clients, took }) = over {
                    info!(clients, ms = took.as_millis(), "clients were handed off to their new owners");
                }
            }
        }
    }

    /// Has links carried whose turn did not come though something waits there. Ends when dropped.
    pub async fn carry_what_waits(self, edge: Edge) {
        loop {
            self.0.waiting.notified().await;
            while let Some(until) = self.with(|state| state.waits_until()) {
                sleep_until(until.into()).await;
                if self.with(|state| state.waits_until()).is_some_and(|until| until <= Instant::now()) {
                    edge.carry();
                }
            }
            self.with(|state| state.is_waited_for = false);
        }
    }

    fn wait_for_what_waits(&self) {
        let begins =
            self.with(|state| state.waits_until().is_some() && !std::mem::replace(&mut state.is_waited_for, true));
        if begins {
            self.0.waiting.notify_one();
        }
    }

    /// Looks whether nodes give signs of life.
    pub(crate) fn look(&self, now: Instant, core: &mut EdgeCore) {
        self.with(|state| state.carriers.iter_mut().for_each(|(link, carrier)| carrier.look(now, core, link)));
    }

    fn find_place(&self, now: Instant, core: &mut EdgeCore, client: ClientKey) {
        let Some(key) = core.key_hash(client) else { return };
        match self.with(|state| state.placement.choose(key)) {
            Some(link) => core.attach(now, client, link),
            None => {
                core.refuse(client, no_node());
                if core.key_hash(client).is_some() {
                    self.with(|state| state.placement.keep_homeless(client));
                }
            }
        }
    }
}

fn no_node() -> Refusal {
    Refusal {
        status: 503,
        code: "no_node".to_owned(),
        message: "no signaling node can be reached; try again".to_owned(),
        retry_after_ms: Some(1000),
    }
}

impl Backend for BalancerBackend {
    fn place(&mut self, now: Instant, core: &mut EdgeCore, client: ClientKey) {
        self.find_place(now, core, client);
    }

    fn jumped(&mut self, _: Instant, core: &mut EdgeCore) {
        self.give_up(core);
    }

    fn wake(&mut self, now: Instant, core: &EdgeCore) -> bool {
        let due = self.with(|state| {
            let due = |(link, carrier): (LinkKey, &mut TrunkConnection)| carrier.is_due(now, core, link);
            state.carriers.iter_mut().map(due).fold(false, |any, due| any | due)
        });
        self.wait_for_what_waits();
        due
    }

    fn all_else_waits(&self) -> Duration {
        ALL_ELSE_WAITS
    }

    fn carry(&mut self, now: Instant, core: &mut EdgeCore) {
        self.with(|state| {
            for (link, carrier) in &mut state.carriers {
                if carrier.is_due(now, core, link) {
                    carrier.carry(now, core, link);
                }
            }
        });
        self.wait_for_what_waits();
    }

    fn read(&mut self, now: Instant, core: &mut EdgeCore) {
        self.with(|state| {
            for (link, carrier) in &mut state.carriers {
                carrier.ready(now, core, link, false);
            }
        });
    }

    fn ready(&mut self, now: Instant, core: &mut EdgeCore, link: LinkKey, ends: bool) -> bool {
        self.with(|state| state.carriers.get_mut(link).is_some_and(|carrier| carrier.ready(now, core, link, ends)))
    }
}
