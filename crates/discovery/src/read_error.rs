//! Errors of one reading of a source, which are logged, or returned by `Source::check_file`.

/// Reason why a reading gave no view to publish. Logs name each kind once until a recovery.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The file is missing, no regular file, over 1 MiB, or cannot be read. Holds the error.
    #[error("the file cannot be read: {0}")]
    Unreadable(String),
    /// The content is not a list of valid, distinct nodes; holds the defect. It may be incomplete.
    #[error("the content is not a list of nodes: {0}")]
    Malformed(String),
    /// The list, as of an empty file, has no or only unready nodes, but the previous view had some.
    #[error("the list has become empty, or all its nodes are unready")]
    SuddenlyEmpty,
    /// The source is unreachable, its answer late or invalid, or a watch broke. Holds the reason.
    #[error("no valid answer: {0}")]
    NoAnswer(String),
    /// The Kubernetes API denies this server access (401 or 403). Holds its answer and advice.
    #[error("access denied: {0}")]
    Refused(String),
}
