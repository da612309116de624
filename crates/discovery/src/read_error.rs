//! What can be wrong with one reading of a source.

use std::mem::{Discriminant, discriminant, take};

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

/// What kinds of trouble there have been since all was well, each once, whatever its details.
#[derive(Debug, Default)]
pub(crate) struct Troubles(Vec<Discriminant<ReadError>>);

impl Troubles {
    /// Says whether it is of a new kind.
    pub(crate) fn has(&mut self, trouble: &ReadError) -> bool {
        let kind = discriminant(trouble);
        let is_new = !self.0.contains(&kind);
        if is_new {
            self.0.push(kind);
        }
        is_new
    }

    /// All is well. Says whether it was not.
    pub(crate) fn end(&mut self) -> bool {
        !take(&mut self.0).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_new_once_until_all_is_well() {
        let mut troubles = Troubles::default();
        assert!(!troubles.end());
        for round in 0..3 {
            for trouble in [ReadError::SuddenlyEmpty, ReadError::Refused(format!("{round}")), ReadError::Blank] {
                assert_eq!(troubles.has(&trouble), round == 0, "{trouble}");
            }
        }
        assert!(troubles.end());
        assert!(troubles.has(&ReadError::Blank));
    }
}
