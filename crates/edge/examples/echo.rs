//! WebSocket server that echoes text and binary messages, for conformance runs of the codec and the
//! upgrade check. It prints its address. Both flags are optional; these are their defaults.
//!
//! `cargo run --release --example echo -- --listen 127.0.0.1:9001 --max-message-bytes 67108864`

use std::error::Error;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::Request;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use signaling_core::ws::{Decoder, Event, Limits, encode};
use signaling_edge::handshake;
use signaling_protocol::CloseCode;
use signaling_server::Listener;
use signaling_server::http::{HttpLimits, serve_connection, upgraded_tcp};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::{LocalSet, spawn_local};

type Failure = Box<dyn Error>;

const SCRATCH_BYTES: usize = 64 * 1024;
/// Maximum wait for the end of the client's side after the server has ended its own.
const DRAIN: Duration = Duration::from_millis(500);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let listen = flag("--listen").unwrap_or_else(|| "127.0.0.1:9001".to_owned());
    let max_message_bytes = flag("--max-message-bytes").map_or(Ok(64 << 20), |value| value.parse())?;
    let limits = Limits { max_message_bytes, max_fragments: u32::MAX, binary: true };
    let mut listener = Listener::bind(listen.parse()?)?;
    println!("listening on {}", listener.local_addr());
    LocalSet::new()
        .run_until(async {
            loop {
                let (stream, peer) = listener.accept().await;
                let service = move |request| async move { answer(request, limits) };
                spawn_local(serve_connection(stream, peer, HttpLimits::PUBLIC, service));
            }
        })
        .await
}

fn flag(name: &str) -> Option<String> {
    std::env::args().skip_while(|arg| arg != name).nth(1)
}

fn answer(mut request: Request<Incoming>, limits: Limits) -> Response<Body> {
    let accept = match handshake::check(request.method(), request.version(), request.headers()) {
        Ok(accept) => accept,
        Err(refused) => return refused.into_response(),
    };
    let upgrade = hyper::upgrade::on(&mut request);
    spawn_local(async move {
        if let Err(error) = echo(upgrade, limits).await {
            eprintln!("websocket: {error}");
        }
    });
    accept.client_response()
}

async fn echo(upgrade: OnUpgrade, limits: Limits) -> Result<(), Failure> {
    let (mut stream, early) = upgraded_tcp(upgrade.await?)?;
    let mut scratch = vec![0; SCRATCH_BYTES];
    let mut out = Vec::new();
    let mut decoder = Decoder::default();
    // Frames that the client sent before it had the answer to its upgrade.
    let mut early = early.to_vec();
    let mut closing = answer_frames(&mut decoder, &mut early, limits, &mut out);
    loop {
        stream.write_all(&out).await?;
        out.clear();
        if closing {
            break;
        }
        let count = stream.read(&mut scratch).await?;
        if count == 0 {
            return Ok(());
        }
        closing = answer_frames(&mut decoder, &mut scratch[..count], limits, &mut out);
    }
    stream.shutdown().await?;
    let drained = async { while !matches!(stream.read(&mut scratch).await, Ok(0) | Err(_)) {} };
    let _ = tokio::time::timeout(DRAIN, drained).await;
    Ok(())
}

/// Decodes `bytes` and appends answers to `out`. Returns `true` if the last frame is a close frame.
fn answer_frames(decoder: &mut Decoder, bytes: &mut [u8], limits: Limits, out: &mut Vec<u8>) -> bool {
    let mut input = decoder.feed(bytes, limits);
    loop {
        match input.next() {
            Ok(None) => return false,
            Ok(Some(Event::Text(text))) => encode::text(out, text),
            Ok(Some(Event::Binary(bytes))) => encode::binary(out, bytes),
            Ok(Some(Event::Ping(payload))) => encode::pong(out, payload),
            Ok(Some(Event::Pong(_))) => {}
            Ok(Some(Event::Close(code, _))) => {
                // `NO_CODE` encodes an empty close frame, as the client's was.
                encode::close(out, code.unwrap_or(CloseCode::NO_CODE.0), "");
                return true;
            }
            Err(violation) => {
                encode::close(out, violation.code, violation.reason);
                return true;
            }
        }
    }
}
