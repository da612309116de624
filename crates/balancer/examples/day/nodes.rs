//! The pods of nodes: when each came, serves, goes.

use std::sync::Arc;

use signaling_discovery::{Member, View};

/// From its creation until a pod is in the slices: scheduled, started, ready.
const STARTS_IN_MS: u64 = 8_000;
/// Until its cores are known to the autoscaler: two rounds of the metrics server.
const MEASURED_AFTER_MS: u64 = 30_000;

/// One pod.
#[derive(Debug)]
pub(crate) struct Pod {
    /// Its name, which is the node's.
    pub(crate) name: String,
    ready_at: u64,
    /// It was told to go.
    pub(crate) is_leaving: bool,
}

/// All of them, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    /// One by one.
    pub(crate) pods: Vec<Pod>,
    made: u32,
}

impl Pod {
    /// Whether clients can be served by it.
    pub(crate) fn is_ready(&self, now: u64) -> bool {
        now >= self.ready_at
    }

    /// Whether the autoscaler knows what it uses.
    pub(crate) fn is_measured(&self, now: u64) -> bool {
        now >= self.ready_at + MEASURED_AFTER_MS
    }
}

impl Pods {
    /// So many that have been there for long.
    pub(crate) fn starting_with(count: u32) -> Self {
        let mut pods = Self::default();
        (0..count).for_each(|_| pods.make(0));
        pods
    }

    /// Those that were not told to go.
    pub(crate) fn staying(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().filter(|pod| !pod.is_leaving)
    }

    /// Makes it so many. Of too many the youngest go first.
    pub(crate) fn scale(&mut self, now: u64, count: u32) {
        let staying = self.staying().count();
        (staying..count as usize).for_each(|_| self.make(now + STARTS_IN_MS));
        let too_many = staying.saturating_sub(count as usize);
        self.pods.iter_mut().rev().filter(|pod| !pod.is_leaving).take(too_many).for_each(|pod| pod.is_leaving = true);
    }

    fn make(&mut self, ready_at: u64) {
        self.pods.push(Pod { name: format!("signaling-nodes-{}", self.made), ready_at, is_leaving: false });
        self.made += 1;
    }

    /// What the slices say.
    pub(crate) fn view(&self, now: u64) -> Result<Arc<View>, Box<dyn std::error::Error>> {
        let ready = self.pods.iter().filter(|pod| pod.is_ready(now));
        let members: Result<Vec<Member>, Box<dyn std::error::Error>> = ready
            .map(|pod| {
                Ok(Member { id: pod.name.parse()?, address: "10.0.0.1:7900".parse()?, draining: pod.is_leaving })
            })
            .collect();
        Ok(Arc::new(View::new(members?)?))
    }
}
