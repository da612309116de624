//! The body of a close frame.

use super::{Event, Violation};

/// Reads an unmasked close body: nothing, or a code and a reason. Fails with 1002 for one byte or a
/// reserved code, and with 1007 for a reason that is not UTF-8.
pub(super) fn read_close(body: &[u8]) -> Result<Event<'_>, Violation> {
    let Some((&code, reason)) = body.split_first_chunk() else {
        return match body {
            [] => Ok(Event::Close(None, "")),
            _ => Err(Violation::protocol("the body of a close frame has only one byte")),
        };
    };
    let code = u16::from_be_bytes(code);
    if !may_be_sent(code) {
        return Err(Violation::protocol("the close code may not be sent"));
    }
    let reason = std::str::from_utf8(reason).map_err(|_| Violation::utf8("the close reason is not valid UTF-8"))?;
    Ok(Event::Close(Some(code), reason))
}

/// Returns `true` if a client may send the close code. RFC 6455 section 7.4 and its registry
/// reserve 1004 to 1006 and codes from 1015 on. Libraries and applications use 3000 to 4999.
fn may_be_sent(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}
