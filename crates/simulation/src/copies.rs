//! Copies of messages at other nodes. A copy that expires there after its sender received an `ack`
//! was left behind. It could have been delivered again to a recipient that came to that node
//! meanwhile.

use std::collections::BTreeMap;

use signaling_wire::MessageNumber;
use signaling_wire::forward::{self, EnvelopeOutcome, Item, QueueId};

use crate::event::MessageId;

/// Messages between nodes, by their present queue id and number. Leftovers of a queue whose session
/// moved away, and relayed messages, do not count: no node is responsible for forgetting them.
#[derive(Debug, Default)]
pub(crate) struct Copies(BTreeMap<MessageId, (QueueId, MessageNumber)>);

impl Copies {
    /// Reads a batch or an answer. Returns each message of which a copy has expired, once.
    pub(crate) fn observe(&mut self, mut bytes: &[u8]) -> Vec<MessageId> {
        let mut over = Vec::new();
        if forward::open(&mut bytes).is_err() {
            return over;
        }
        while let Ok(item) = Item::take(&mut bytes) {
            match item {
                Item::Envelope(envelope) if envelope.via.is_empty() => {
                    if let Some(message) = message_in(envelope.payload) {
                        self.0.insert(message, (envelope.queue_id, envelope.origin.number));
                    }
                }
                Item::Outcome { queue_id, number, outcome: EnvelopeOutcome::Expired, via } if via.is_empty() => {
                    over.extend(
                        self.0.extract_if(.., |_, name| *name == (queue_id, number)).map(|(message, _)| message),
                    );
                }
                _ => {}
            }
        }
        over
    }
}

/// Returns the message that a `signal` starts its data with.
fn message_in(payload: &[u8]) -> Option<MessageId> {
    let (_, rest) = std::str::from_utf8(payload).ok()?.split_once(r#""m":"#)?;
    rest.split_once(|character: char| !character.is_ascii_digit())?.0.parse().ok()
}
