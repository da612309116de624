//! Zones of nodes, from views.

use signaling_protocol::ids::{NameError, check_name};

signaling_protocol::checked_texts! {
    /// A part of the mesh that can fail at once, such as a data center: 1 to 128 characters of
    /// `A-Z a-z 0-9 . _ ~ : @ -`.
    Zone, check, ZoneError;
}

/// The error of a text that names no zone. Its text has the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the zone {0}")]
pub struct ZoneError(NameError);

fn check(text: &str) -> Result<(), ZoneError> {
    check_name(text).map_err(ZoneError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_is_a_name_of_bounded_length() {
        assert!(Zone::new("eu-west-1a").is_ok() && Zone::new(&"a".repeat(128)).is_ok());
        for (bad, part) in [("", "empty"), ("a b", "byte 1"), (&*"a".repeat(129), "at most 128")] {
            let message = Zone::new(bad).unwrap_err().to_string();
            assert!(message.starts_with("the zone ") && message.contains(part), "{bad:?}: {message:?}");
        }
    }
}
