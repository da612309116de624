//! What can be wrong with one reading of a source.

/// Why a reading gave no view to publish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The file is not there.
    #[error("the file is missing")]
    Missing,
    /// The path is a directory, a pipe or the like.
    #[error("the path is not a regular file")]
    NotAFile,
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Unreadable(String),
    /// The file is longer than a list of nodes can be.
    #[error("the file has {bytes} bytes, at most {max} are read")]
    TooLarge {
        /// How long it is.
        bytes: u64,
        /// How long it may be.
        max: u64,
    },
    /// The file has nothing in it.
    #[error("the file is empty: an empty mesh is written []")]
    Blank,
    /// The content is no list of nodes, maybe because it is being written.
    #[error("the content is not a list of nodes: {0}")]
    Malformed(String),
    /// The list has no nodes, and the view before it had some.
    #[error("the list has no nodes any more")]
    SuddenlyEmpty,
    /// The source cannot be reached, or does not answer as it should.
    #[error("no good answer: {0}")]
    NoAnswer(String),
    /// The source answers that this server may not ask.
    #[error("not allowed to ask: {0}")]
    Refused(String),
}
