//! Copies of messages at other nodes: one that waits there until its time is over, though its sender has been told that the
//! message was delivered, was left behind. It would have gone down to a recipient who had come there meanwhile.

use std::collections::BTreeMap;

use signaling_wire::forward::{self, EnvelopeOutcome, Item};

use crate::event::MessageId;

/// The messages that nodes have sent each other, each by the ticket and number that it goes by now: what is left of a queue
/// that its sender's session has gone away from is nobody's to forget, nor what a third node was passed.
#[derive(Debug, Default)]
pub(crate) struct Copies(BTreeMap<MessageId, (u64, u64)>);

impl Copies {
    /// Looks at a batch or an answer. Gives the messages of which a copy has run out, each once.
    pub(crate) fn look(&mut self, mut bytes: &[u8]) -> Vec<MessageId> {
        let mut over = Vec::new();
        if forward::open(&mut bytes).is_err() {
            return over;
        }
        while let Ok(item) = Item::take(&mut bytes) {
            match item {
                Item::Envelope(envelope) if envelope.via.is_empty() => {
                    if let Some(message) = message_in(envelope.payload) {
                        self.0.insert(message, (envelope.queue_id.0, envelope.origin.number));
                    }
                }
                Item::Outcome { queue_id, number, fate: EnvelopeOutcome::Expired, via } if via.is_empty() => {
                    over.extend(
                        self.0.extract_if(.., |_, name| *name == (queue_id.0, number)).map(|(message, _)| message),
                    );
                }
                _ => {}
            }
        }
        over
    }
}

/// Which message a `signal` is: its data says so first.
fn message_in(payload: &[u8]) -> Option<MessageId> {
    let (_, rest) = std::str::from_utf8(payload).ok()?.split_once(r#""m":"#)?;
    rest.split_once(|character: char| !character.is_ascii_digit())?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_known_by_what_its_data_says() {
        let payload = br#"{"type":"signal","from":"c1","data":{"m":42,"pad":"xx"},"id":7}"#;
        assert_eq!((message_in(payload), message_in(b"{}")), (Some(42), None));
    }
}
