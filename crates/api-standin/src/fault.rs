//! Failures of lists and watches. Tests set them by [`ApiServer::fails`](crate::ApiServer::fails).

/// One kind of failure. Lists support only `Status` and `Hang`, and break their connection on the
/// others. `Status` and `Hang` do not affect open watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An answer with this HTTP status (100 to 999), and a `Status` object.
    Status(u16),
    /// No answer, also after the fault; the connection stays open.
    Hang,
    /// A watch that begins, sends nothing and does not end, also after the fault. Open watches fall
    /// silent too.
    Silent,
    /// A watch that ends in good order as soon as it has begun. Open watches end too.
    EndsAtOnce,
    /// A watch that ends in good order within the line of its next event. Open ones do so too.
    Truncated,
    /// A watch whose connection breaks in the middle of a line. Open watches break at once.
    Cut,
}
