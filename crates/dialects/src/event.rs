//! Countable events of translators. The edge adds them to its metrics, labelled by dialect.

/// An event that a metric counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A frame, a part of one, or a message of the mesh had no effect.
    Ignored(IgnoredReason),
    /// The client was sent an answer of its dialect.
    Answered(AnswerKind),
    /// A room request waits because no node can carry it out now.
    RoomWait,
    /// A broadcast waits because the client's broadcasts reach too many members per second.
    ReachWait,
}

/// Reason why an input had no effect: the label `reason` of `signaling_dialect_ignored_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoredReason {
    /// The text is no JSON object.
    Json,
    /// The dialect has no such message from a client.
    Type,
    /// A field is missing or invalid.
    Field,
    /// The dialect allows no binary frames.
    Binary,
    /// The sender is no client of this dialect, or its translator cannot have sent the content.
    Foreign,
    /// The sender, recipient or session is not one that the client can have now.
    UnknownPeer,
    /// A limit of the translator is reached.
    Limit,
}

/// Kind of an answer: the label `kind` of `signaling_dialect_answers_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerKind {
    /// PeerJS: a recipient was not reached.
    Expire,
    /// GStreamer: a request is invalid, or its peer was not reached.
    Error,
    /// A subscription failed for good. The client receives no answer in most dialects.
    SubscribeFailed,
}
