use std::cell::RefCell;
use std::collections::BTreeMap;

use super::Listener;

/// Of clients that only hold their sockets: how often a socket ended though we did not end it, by reason.
#[derive(Default)]
pub(crate) struct Endings(RefCell<BTreeMap<String, u64>>);

impl Endings {
    pub(crate) fn take(&self) -> BTreeMap<String, u64> {
        self.0.take()
    }
}

impl Listener for Endings {
    fn text(&self, _client: usize, _text: &str) -> Option<u64> {
        None
    }

    fn ended(&self, _client: usize, reason: String) {
        *self.0.borrow_mut().entry(reason).or_default() += 1;
    }
}
