//! What to publish, given the last view and a reading.

use crate::ReadError;
use signaling_core::View;

/// What follows from one reading of the source.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PublishDecision {
    /// The mesh has changed.
    Publish(View),
    /// The source says what it said before.
    Unchanged,
    /// The source cannot be believed: the last view stays.
    Keep(ReadError),
}

/// A mesh that is suddenly empty is far likelier to be a fault of the source than the truth, and to believe it would cost
/// every client: only a view that was empty before may stay so.
pub(crate) fn judge(last: &View, reading: Result<View, ReadError>) -> PublishDecision {
    match reading {
        Err(trouble) => PublishDecision::Keep(trouble),
        Ok(view) if view == *last => PublishDecision::Unchanged,
        Ok(view) if view.is_empty() => PublishDecision::Keep(ReadError::SuddenlyEmpty),
        Ok(view) => PublishDecision::Publish(view),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::Source;

    #[test]
    fn a_view_that_differs_is_published() {
        assert_eq!(judge(&View::default(), Ok(view("a=h:1"))), PublishDecision::Publish(view("a=h:1")));
        assert_eq!(judge(&view("a=h:1"), Ok(view("a=h:2"))), PublishDecision::Publish(view("a=h:2")));
    }

    #[test]
    fn the_same_view_is_not_published_again() {
        assert_eq!(judge(&view("a=h:1"), Ok(view("a=h:1"))), PublishDecision::Unchanged);
        assert_eq!(judge(&View::default(), Ok(View::default())), PublishDecision::Unchanged);
    }

    #[test]
    fn a_view_that_is_suddenly_empty_is_not_believed() {
        assert_eq!(judge(&view("a=h:1"), Ok(View::default())), PublishDecision::Keep(ReadError::SuddenlyEmpty));
    }

    #[test]
    fn a_bad_reading_keeps_the_last_view() {
        assert_eq!(judge(&view("a=h:1"), Err(ReadError::Missing)), PublishDecision::Keep(ReadError::Missing));
    }

    fn view(list: &str) -> View {
        match format!("static:{list}").parse().unwrap() {
            Source::Static(view) => view,
            other => panic!("{other} is not static"),
        }
    }
}
