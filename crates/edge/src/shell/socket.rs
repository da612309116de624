//! Reading one client's socket.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use signaling_protocol::trunk::Gone;
use tokio::io::ReadBuf;
use tokio::sync::Notify;

use super::Edge;
use super::wire::{WireReader, WireWriter};
use crate::core::{ClientKey, Reading};
use crate::ws::Decoder;

/// Reads a client from its upgrade on, in a task of its own.
pub(super) fn start(edge: &Edge, client: ClientKey, reader: WireReader, writer: WireWriter, early: Bytes) {
    let resume = Rc::new(Notify::new());
    let task = tokio::task::spawn_local(read(edge.clone(), client, reader, early, Rc::clone(&resume)));
    edge.with(|state, _| {
        state.socket_opened(Instant::now(), client, Rc::new(writer), task.abort_handle(), resume);
    });
}

async fn read(edge: Edge, client: ClientKey, mut reader: WireReader, early: Bytes, resume: Rc<Notify>) {
    let mut decoder = Decoder::default();
    let mut early = early.to_vec();
    let mut reading = edge.with(|state, _| state.client_bytes(client, &mut decoder, &mut early));
    drop(early);
    loop {
        reading = match reading {
            Reading::Paused => {
                resume.notified().await;
                edge.with(|state, _| state.client_bytes(client, &mut decoder, &mut []))
            }
            Reading::On => match poll_fn(|cx| poll(cx, &edge, client, &mut reader, &mut decoder)).await {
                Some(reading) => reading,
                None => return edge.with(|state, _| state.client_gone(client, Gone::Lost)),
            },
        };
    }
}

/// Reads into the buffer that all clients share, so that an idle one holds none. Nothing if the socket has ended.
fn poll(
    cx: &mut Context<'_>,
    edge: &Edge,
    client: ClientKey,
    reader: &mut WireReader,
    decoder: &mut Decoder,
) -> Poll<Option<Reading>> {
    let mut scratch = edge.with_quietly(super::state::State::take_scratch);
    let mut buffer = ReadBuf::new(&mut scratch);
    let polled = reader.poll_read(cx, &mut buffer);
    let filled = buffer.filled_mut();
    let reading = match polled {
        Poll::Ready(Ok(())) if !filled.is_empty() => {
            Some(edge.with(|state, _| state.client_bytes(client, decoder, filled)))
        }
        _ => None,
    };
    edge.with_quietly(|state| state.return_scratch(scratch));
    // A pending read is the common case when many tasks wake for one event.
    let ended: std::io::Result<()> = ready!(polled);
    Poll::Ready(if ended.is_ok() { reading } else { None })
}
