//! Echoes text and binary messages, for conformance runs of the codec and the upgrade check.
//!
//! `cargo run --release --example echo -- --listen 127.0.0.1:9001 --max-message-bytes 67108864`

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use signaling_core::ws::{self, Decoder, Limits};
use signaling_edge::handshake;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

type Failure = Box<dyn Error + Send + Sync>;

const SCRATCH_BYTES: usize = 64 * 1024;
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take to close its side once we have closed ours.
const DRAIN: Duration = Duration::from_millis(500);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let listen = flag("--listen").unwrap_or_else(|| "127.0.0.1:9001".to_owned());
    let max_message_bytes = flag("--max-message-bytes").map_or(Ok(64 << 20), |value| value.parse())?;
    let limits = Limits { max_message_bytes, max_fragments: u32::MAX, binary: true };
    let listener = TcpListener::bind(listen).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let service = service_fn(move |request| async move { Ok::<_, Infallible>(answer(request, limits)) });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades()
                .await;
            if let Err(error) = served {
                eprintln!("http: {error}");
            }
        });
    }
}

fn flag(name: &str) -> Option<String> {
    std::env::args().skip_while(|arg| arg != name).nth(1)
}

fn answer(mut request: Request<Incoming>, limits: Limits) -> Response<Full<Bytes>> {
    let accept = match handshake::check(request.method(), request.version(), request.headers()) {
        Ok(accept) => accept,
        Err(refused) => return refuse(&refused),
    };
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        if let Err(error) = echo(upgrade, limits).await {
            eprintln!("websocket: {error}");
        }
    });
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, header::HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, header::HeaderValue::from_static("upgrade"));
    if let Ok(value) = accept.key_accept.try_into() {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, value);
    }
    if accept.signaling_v1 {
        let subprotocol = header::HeaderValue::from_static(handshake::SUBPROTOCOL);
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, subprotocol);
    }
    response
}

fn refuse(refused: &handshake::Refused) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(refused.message));
    *response.status_mut() = refused.status;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    for (name, value) in refused.headers {
        headers.insert(*name, header::HeaderValue::from_static(value));
    }
    response
}

async fn echo(upgrade: OnUpgrade, limits: Limits) -> Result<(), Failure> {
    let parts =
        upgrade.await?.downcast::<TokioIo<TcpStream>>().map_err(|_| "the upgraded connection is not over TCP")?;
    let mut stream = parts.io.into_inner();
    let mut scratch = vec![0; SCRATCH_BYTES];
    let mut out = Vec::new();
    let mut decoder = Decoder::default();
    let mut early = parts.read_buf.to_vec();
    let mut closing = ws::echo(&mut decoder, &mut early, limits, &mut out);
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
        closing = ws::echo(&mut decoder, &mut scratch[..count], limits, &mut out);
    }
    stream.shutdown().await?;
    let drained = async { while !matches!(stream.read(&mut scratch).await, Ok(0) | Err(_)) {} };
    let _ = tokio::time::timeout(DRAIN, drained).await;
    Ok(())
}
