//! The journal of this node's rooms and clients, and its state for operators and metrics.

use std::rc::Rc;
use std::time::{Duration, Instant};

use ring::hmac;
use signaling_core::node::NodeCore;
use signaling_journal::{Journal, JournalStatus, JournalUrl, KeyPrefix, Owner};
use signaling_protocol::RoomName;
use signaling_rooms::{JournalOutcome, JournalRead, JournalWrite, Registrations};
use signaling_server::{MeshSecret, Secrets};
use signaling_wire::Incarnation;
use tokio::sync::Notify;

use crate::Node;

/// What a hash of the mesh secret is made for. Another version needs another text.
const IDENTITY: &[u8] = b"signaling room journal v1";

/// Address and keys of a journal.
#[derive(Debug, Clone)]
pub struct JournalConfig {
    /// Address, which may contain a password.
    pub url: JournalUrl,
    /// First part of every key.
    pub prefix: KeyPrefix,
}

/// The journal as the node's thread sees it.
#[derive(Debug, Default)]
pub(crate) struct JournalView {
    /// Wakes the journal to read rooms.
    wake: Rc<Notify>,
    pub(crate) status: JournalStatus,
}

impl JournalView {
    /// Has the journal read rooms.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Returns how long changes have waited that are not written. 0: all are written.
    pub(crate) fn lag(&self, now: Instant) -> Duration {
        self.status.behind_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

/// Returns the name of the mesh in its journal: a hash of its secret.
fn identity(secret: &MeshSecret) -> String {
    let hash = hmac::sign(secret.between_servers(), IDENTITY);
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Node {
    /// Writes the journal of this node. Runs until dropped.
    ///
    /// # Errors
    /// If the address is invalid.
    pub(crate) fn journal(
        &self,
        JournalConfig { url, prefix }: JournalConfig,
        secrets: Secrets,
    ) -> Result<impl Future<Output = ()> + use<>, String> {
        let process = self.with_core_ref(|core| (core.settings().id.clone(), core.settings().incarnation));
        let identities = move || secrets.accepted().iter().map(identity).collect();
        let journal = Journal::new(url, prefix, process, identities)?;
        let node = self.clone();
        let wake = {
            let mut state = self.0.borrow_mut();
            Rc::clone(&state.journal.get_or_insert_default().wake)
        };
        Ok(async move {
            journal.run(&node, &wake).await;
        })
    }
}

impl Node {
    /// Returns the state of the journal for operators. `None`: there is no journal.
    pub(crate) fn journal_state(&self) -> Option<String> {
        let state = self.0.borrow();
        let status = &state.journal.as_ref()?.status;
        let problem = || status.problem.clone().unwrap_or_else(|| "not connected yet".to_owned());
        Some(if status.is_up { "up".to_owned() } else { problem() })
    }
}

impl Owner for Node {
    fn take_writes(&self, max_bytes: usize) -> Vec<JournalWrite> {
        self.with_core(|core| core.take_journal(Instant::now(), max_bytes))
    }

    fn has_writes(&self) -> bool {
        self.with_core_ref(|core| core.rooms().has_journal_writes())
    }

    fn written(&self, room: &RoomName, number: u64, outcome: JournalOutcome) {
        self.with_core(|core| core.journal_written(Instant::now(), room, number, outcome));
    }

    fn take_reads(&self) -> Vec<RoomName> {
        self.with_core(NodeCore::take_journal_reads)
    }

    fn answer(&self, read: JournalRead) {
        self.with_core(|core| core.journal_read(Instant::now(), read));
    }

    fn take_registrations(&self, max: usize) -> Registrations {
        self.with_core(|core| core.take_registrations(max))
    }

    fn forget_registrations(&self) {
        self.with_core(NodeCore::forget_registrations);
    }

    fn clients(&self) -> usize {
        self.with_core_ref(NodeCore::sessions)
    }

    fn is_former_process(&self, node: &str, incarnation: Incarnation) -> bool {
        self.with_core_ref(|core| core.is_former_process(node, incarnation))
    }

    fn cleans(&self, node: &str) -> bool {
        self.with_core_ref(|core| core.cleans(node))
    }

    fn is_left_over(&self, room: &RoomName) -> bool {
        self.with_core_ref(|core| core.rooms().is_left_over(room))
    }

    fn set_status(&self, status: JournalStatus) {
        let is_up = status.is_up;
        self.0.borrow_mut().journal.get_or_insert_default().status = status;
        self.with_core(|core| core.set_journal_up(Instant::now(), is_up));
    }
}
