//! Countable events of translators. The edge adds them to its metrics, labelled by dialect.

/// An event that a metric counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A frame, a part of one, or a message of the mesh had no effect. rxdb also closes the client
    /// after a bad message, and Pixel Streaming if too many requests wait.
    Ignored(IgnoredReason),
    /// A message or subscription failed. The client gets an answer, except for most of
    /// [`AnswerKind::SubscribeFailed`].
    Answered(AnswerKind),
    /// A room request or list of members was refused and waits: no node can carry it out now.
    RoomWait,
}

/// Reason why an input had no effect: the label `reason` of `signaling_dialect_ignored_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoredReason {
    /// The text is no JSON object. GStreamer also: a name occurs twice in it.
    Json,
    /// The dialect has no message of this type from the client or from another translator.
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
    /// PeerJS: a recipient was not reached, or a message to it exceeded a limit.
    Expire,
    /// GStreamer: a request is invalid or failed, or its peer was not reached or refused it.
    Error,
    /// A subscription or a room's join failed for good; of GStreamer, the first join. Only
    /// GStreamer clients are answered, and Pixel Streaming players of a missing or full streamer.
    SubscribeFailed,
}
