//! Errors of one reading of a source, which are logged, or returned by `Source::check_file`.

/// Reason why a reading gave no view to publish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The file does not exist.
    #[error("the file is missing")]
    Missing,
    /// The path is a directory, a pipe or another special file.
    #[error("the path is not a regular file")]
    NotAFile,
    /// The file cannot be read. Holds the error of the system.
    #[error("the file cannot be read: {0}")]
    Unreadable(String),
    /// The file is longer than the limit.
    #[error("the file has more than {max} bytes")]
    TooLarge {
        /// Maximum length in bytes.
        max: u64,
    },
    /// The file is empty, or holds only white space.
    #[error("the file is empty: write [] for an empty mesh")]
    Blank,
    /// The content is not a list of valid, distinct nodes; holds the defect. It may be incomplete.
    #[error("the content is not a list of nodes: {0}")]
    Malformed(String),
    /// The list has no nodes, but the previous view had some.
    #[error("the list has become empty")]
    SuddenlyEmpty,
    /// The source cannot be reached, or its answer is invalid. Holds the reason.
    #[error("no valid answer: {0}")]
    NoAnswer(String),
    /// The source denies this server access. Holds its answer and advice.
    #[error("access denied: {0}")]
    Refused(String),
}
