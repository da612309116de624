//! Rules broken on purpose, on the wire: a simulation that does not notice proves nothing about the rule.

use signaling_protocol::forward::{self, Envelope, EnvelopeFate, Header, Item};
use signaling_protocol::trunk::{Attach, ToEdge, ToNode};
use signaling_protocol::{Incarnation, Left};

/// A rule that servers break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Messages do not say which one is before them.
    Prev,
    /// Edges say of all that they got that it was written.
    Written,
    /// What comes back to be sent again is lost.
    Again,
    /// Each server that gets a message starts its life anew.
    Life,
    /// What is over is not asked for.
    Question,
    /// Later sessions do not say that they are later.
    Born,
    /// A restart is not seen.
    Incarnation,
    /// Batches are not numbered.
    Number,
    /// Messages do not say where they have been.
    Via,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Prev,
        Self::Written,
        Self::Again,
        Self::Life,
        Self::Question,
        Self::Born,
        Self::Incarnation,
        Self::Number,
        Self::Via,
    ];

    /// The name in flags.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Prev => "prev",
            Self::Written => "written",
            Self::Again => "again",
            Self::Life => "life",
            Self::Question => "question",
            Self::Born => "born",
            Self::Incarnation => "incarnation",
            Self::Number => "number",
            Self::Via => "via",
        }
    }

    fn left(self, left: Left, hold: Left) -> Left {
        if self == Self::Life { hold } else { left }
    }

    fn prev(self, prev: u64) -> u64 {
        if self == Self::Prev { 0 } else { prev }
    }

    /// What an edge would have sent.
    pub(crate) fn to_node(self, mut bytes: &[u8], hold: Left) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        while let Ok(frame) = ToNode::take(&mut bytes) {
            let frame = match frame {
                ToNode::Attach(attach) if self == Self::Born => ToNode::Attach(Attach { born: 0, ..attach }),
                ToNode::Up { slot, seq, left, payload } => {
                    ToNode::Up { slot, seq, left: self.left(left, hold), payload }
                }
                ToNode::Confirm { slot, up_to, .. } if self == Self::Written => {
                    ToNode::Confirm { slot, up_to, exceptions: Vec::new() }
                }
                other => other,
            };
            frame.append(&mut out);
        }
        out
    }

    /// What a node would have sent to an edge.
    pub(crate) fn to_edge(self, mut bytes: &[u8], hold: Left) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        while let Ok(frame) = ToEdge::take(&mut bytes) {
            let frame = match frame {
                ToEdge::Down { slot, d, origin, prev, left, payload } => {
                    let (prev, left) = (self.prev(prev), self.left(left, hold));
                    ToEdge::Down { slot, d, origin, prev, left, payload }
                }
                other => other,
            };
            frame.append(&mut out);
        }
        out
    }

    /// What a node would have sent to another, or answered.
    pub(crate) fn between_nodes(self, mut bytes: &[u8], hold: Left) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        let Ok(header) = forward::open(&mut bytes) else { return out };
        let incarnation = if self == Self::Incarnation { Incarnation([0; 8]) } else { header.incarnation };
        let number = if self == Self::Number { 1 } else { header.number };
        forward::start(&mut out, &Header { incarnation, number, ..header });
        while let Ok(item) = Item::take(&mut bytes) {
            let item = match item {
                Item::Fate { fate: EnvelopeFate::Again, .. } if self == Self::Again => continue,
                Item::Envelope(Envelope { left: Left::NONE, .. }) if self == Self::Question => continue,
                Item::Envelope(envelope) => {
                    let (prev, left) = (self.prev(envelope.prev), self.left(envelope.left, hold));
                    let via = if self == Self::Via { Vec::new() } else { envelope.via };
                    Item::Envelope(Envelope { prev, left, via, ..envelope })
                }
                other => other,
            };
            item.append(&mut out);
        }
        out
    }
}
