//! WebSocket frames as a client sees them. `clients` reads sockets with it.

use signaling_core::ws::encode;

/// A frame from a server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Text(Vec<u8>),
    Ping,
    /// Any other frame, such as a pong or a close.
    Other,
}

/// Removes one whole, unmasked frame from the front of `bytes`. Returns `None` if it is incomplete.
pub(crate) fn take(bytes: &mut Vec<u8>) -> Option<Frame> {
    let length = encode::frame_len(bytes).filter(|length| *length <= bytes.len())?;
    let frame: Vec<u8> = bytes.drain(..length).collect();
    let header = match frame[1] {
        126 => 4,
        127 => 10,
        _ => 2,
    };
    Some(match frame[0] & 0x0f {
        1 => Frame::Text(frame[header..].to_vec()),
        9 => Frame::Ping,
        _ => Frame::Other,
    })
}
