//! Classes of clients that may send at different rates.

use std::fmt;

use signaling_protocol::NameError;
use signaling_protocol::ids::check_name;

/// The name of a class: the claim `rate_class` of a client's token. What rates go with it, the operator says; a name that nobody has
/// given any rates means the usual ones. Of the same characters, and as long, as a room's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RateClass(Box<str>);

impl RateClass {
    /// Checks and keeps a name.
    ///
    /// # Errors
    /// If it is empty, too long, or has other characters.
    pub fn new(name: &str) -> Result<Self, NameError> {
        check_name(name)?;
        Ok(Self(name.into()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RateClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
