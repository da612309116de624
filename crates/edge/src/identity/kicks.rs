//! Clients that an operator has put out: their tokens of before do not let them in again.

use std::collections::HashMap;

use signaling_protocol::ClientId;

/// Most clients that are remembered. Past that the one that was put out longest ago is forgotten.
const MOST: usize = 10_000;

/// When each client was put out, seconds since 1970.
#[derive(Default)]
pub(super) struct Kicks {
    at_by_client: HashMap<ClientId, u64>,
}

impl Kicks {
    pub(super) fn add(&mut self, client: ClientId, at: u64) {
        if self.at_by_client.len() >= MOST
            && !self.at_by_client.contains_key(&client)
            && let Some(oldest) = self.at_by_client.iter().min_by_key(|(_, at)| **at).map(|(client, _)| client.clone())
        {
            self.at_by_client.remove(&oldest);
        }
        let latest = self.at_by_client.entry(client).or_default();
        *latest = at.max(*latest);
    }

    /// Whether a token of the client that was made at `issued` is from before. One that does not say when counts as old; so does one of
    /// the very second, which its client may have had before.
    pub(super) fn bars(&self, client: &ClientId, issued: Option<f64>) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are far below 2^52")]
        let is_old = |at: &u64| issued.is_none_or(|issued| issued < (*at + 1) as f64);
        self.at_by_client.get(client).is_some_and(is_old)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn id(name: &str) -> ClientId {
        ClientId::new(name).unwrap()
    }

    #[test]
    fn only_a_token_made_after_the_latest_kick_is_good() {
        let mut kicks = Kicks::default();
        kicks.add(id("mallory"), 1_000);
        kicks.add(id("mallory"), 900);
        assert!(kicks.bars(&id("mallory"), None));
        assert!(kicks.bars(&id("mallory"), Some(1_000.9)));
        assert!(!kicks.bars(&id("mallory"), Some(1_001.0)));
        assert!(!kicks.bars(&id("alice"), None));
    }

    #[test]
    fn however_many_are_put_out_only_the_latest_are_remembered() {
        let mut kicks = Kicks::default();
        for n in 0..=MOST {
            kicks.add(id(&format!("c{n}")), n as u64);
        }
        assert_eq!(kicks.at_by_client.len(), MOST);
        assert!(!kicks.bars(&id("c0"), None) && kicks.bars(&id("c1"), None));
    }
}
