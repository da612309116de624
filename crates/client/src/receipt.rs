//! Future of a request's outcome.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::core::Outcome;
use crate::outcome::RequestError;

/// Future of a request's outcome; `Ok` means that the recipient has it. Dropping it does not cancel
/// the request.
#[derive(Debug)]
#[must_use = "without it nobody learns what became of the request; say `drop` or `let _ =` if nobody needs to"]
pub struct Receipt {
    pub(crate) outcome: oneshot::Receiver<Outcome>,
}

impl Future for Receipt {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        Pin::new(&mut self.outcome).poll(context).map(|outcome| outcome.unwrap_or(Err(RequestError::Closed)))
    }
}
