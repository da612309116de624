//! Future of a request's outcome, which methods of `Client` return.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::core::Outcome;
use crate::outcome::RequestError;

/// Future of a request's outcome. `Ok` has a [`Delivered`](crate::Delivered): the request was
/// carried out, and a signal delivered. Dropping the future does not cancel the request.
///
/// # Errors
/// Resolves to a [`RequestError`] if the mesh refused the request, no answer came in time, or the
/// client was closed.
#[derive(Debug)]
#[must_use = "the receipt has the outcome of the request; use `let _ =` to ignore it"]
pub struct Receipt {
    pub(crate) outcome: oneshot::Receiver<Outcome>,
}

impl Future for Receipt {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        Pin::new(&mut self.outcome).poll(context).map(|outcome| outcome.unwrap_or(Err(RequestError::Closed)))
    }
}
