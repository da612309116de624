//! The bytes that this node sends on one exchange of a lane: the body of its own request, or of the
//! response to a peer's. `lanes` writes batches, `inbound_lanes` acknowledgements.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use bytes::Bytes;
use http_body::Frame;
use http_body_util::Channel;
use http_body_util::channel::Sender;
use signaling_wire::limits::MAX_WINDOW_BATCHES;

/// Maximum frames that wait for the connection besides a window of batches. A later acknowledgement
/// includes the earlier ones.
const MAX_OTHERS: usize = 4;

/// Writes frames into a body. Clones share it.
#[derive(Clone)]
pub(super) struct LaneWriter(Rc<RefCell<Option<Sender<Bytes, io::Error>>>>);

impl LaneWriter {
    pub(super) fn new() -> (Self, Channel<Bytes, io::Error>) {
        let (sender, body) = Channel::new(MAX_WINDOW_BATCHES + MAX_OTHERS);
        (Self(Rc::new(RefCell::new(Some(sender)))), body)
    }

    /// Writes a frame. Returns `false` if the connection takes no more, or the body has ended.
    pub(super) fn write(&self, frame: Vec<u8>) -> bool {
        self.0.borrow_mut().as_mut().is_some_and(|body| body.try_send(Frame::data(frame.into())).is_ok())
    }

    /// Ends the body. Frames before it are still written.
    pub(super) fn close(&self) {
        drop(self.0.borrow_mut().take());
    }

    /// Breaks the connection. Frames before it can be lost.
    pub(super) fn abort(&self, why: &'static str) {
        if let Some(body) = self.0.borrow_mut().take() {
            body.abort(io::Error::other(why));
        }
    }
}
