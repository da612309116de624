//! The node's I/O around its core, on one thread: trunks (`trunks`), lanes to other nodes (`lanes`), the internal
//! listener (`internal`), and the edge for direct clients (`direct`).

mod direct;
mod internal;
mod lanes;
mod metrics;
mod trunks;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use reqwest::Url;
use signaling_edge::core::Wants;
use signaling_server::Wake;
use slotmap::SecondaryMap;
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};

use self::metrics::NodeMetrics;
use crate::core::{LANES, NodeCore, PeerKey, SWEEP_INTERVAL, TrunkKey};

pub use self::direct::Direct;
pub use self::internal::{Internal, serve};
pub use self::lanes::{client, follow};

/// A node. A cheap clone shares it; it stays on its thread.
#[derive(Clone)]
pub struct Node(Rc<RefCell<State>>);

struct State {
    core: NodeCore,
    trunks: SecondaryMap<TrunkKey, Rc<Wake>>,
    lanes: SecondaryMap<PeerKey, Lanes>,
    metrics: NodeMetrics,
}

/// Who carries a peer's lanes.
struct Lanes {
    /// Where the peer takes batches, now.
    url: Rc<RefCell<Url>>,
    wakes: [Rc<Wake>; LANES],
    carriers: [AbortHandle; LANES],
}

impl Node {
    /// A node around its core.
    #[must_use]
    pub fn new(core: NodeCore) -> Self {
        let metrics = NodeMetrics::new();
        Self(Rc::new(RefCell::new(State { core, trunks: SecondaryMap::new(), lanes: SecondaryMap::new(), metrics })))
    }

    /// Tells the core something, then wakes whoever carries what it has to say.
    pub fn with_core<R>(&self, tell: impl FnOnce(&mut NodeCore) -> R) -> R {
        let mut state = self.0.borrow_mut();
        let result = tell(&mut state.core);
        state.wake();
        result
    }

    /// Lets the core look at the time, at its interval. Ends when dropped.
    pub async fn sweep(self) {
        let mut ticks = interval(SWEEP_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.with_core(|core| core.sweep(Instant::now()));
            let state = self.0.borrow();
            state.metrics.publish(&state.core);
        }
    }

    /// Adds an edge's connection, whose batches the wake announces.
    fn trunk_up(&self) -> (TrunkKey, Rc<Wake>) {
        let wake = Rc::new(Wake::default());
        let mut state = self.0.borrow_mut();
        let trunk = state.core.trunk_up();
        state.trunks.insert(trunk, Rc::clone(&wake));
        state.wake();
        (trunk, wake)
    }

    fn trunk_down(&self, trunk: TrunkKey) {
        self.0.borrow_mut().trunks.remove(trunk);
        self.with_core(|core| core.trunk_down(Instant::now(), trunk));
    }
}

impl State {
    fn wake(&self) {
        for (trunk, wake) in &self.trunks {
            wake_for(wake, self.core.trunk_wants(trunk));
        }
        for (peer, lanes) in &self.lanes {
            for (lane, wake) in lanes.wakes.iter().enumerate() {
                wake_for(wake, self.core.lane_wants(peer, lane));
            }
        }
    }
}

fn wake_for(wake: &Wake, wants: Wants) {
    match wants {
        Wants::Nothing => {}
        Wants::Soon => wake.soon(),
        Wants::Now => wake.now(),
    }
}
