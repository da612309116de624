//! How lists and watches may fail.

/// One way to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An answer with this status, and a `Status` object.
    Status(u16),
    /// No answer at all; the connection stays open.
    Hang,
    /// A watch that begins, says nothing ever, and does not end. Open watches fall silent too.
    Silent,
    /// A watch that ends in good order as soon as it has begun. Open ones end too.
    EndsAtOnce,
    /// A watch that ends in good order in the middle of a line. Open ones end so at their next event.
    Truncated,
    /// A watch whose connection breaks in the middle of a line. Open ones break at once.
    Cut,
}

/// What fails now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// How lists fail.
    pub list: Option<Fault>,
    /// How watches fail.
    pub watch: Option<Fault>,
}

impl Faults {
    /// All is well.
    pub const NONE: Self = Self { list: None, watch: None };

    /// Lists fail.
    pub fn of_lists(fault: Fault) -> Self {
        Self { list: Some(fault), watch: None }
    }

    /// Watches fail.
    pub fn of_watches(fault: Fault) -> Self {
        Self { list: None, watch: Some(fault) }
    }

    /// Both fail.
    pub fn of_both(fault: Fault) -> Self {
        Self { list: Some(fault), watch: Some(fault) }
    }
}

/// How a watch is told that its version has expired.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Expiry {
    /// By an `ERROR` event in an answer of 200; open watches get it too.
    #[default]
    Event,
    /// By the status 410; open watches just end.
    Status,
}
