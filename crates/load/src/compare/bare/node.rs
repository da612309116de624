use std::collections::HashMap;
use std::io::Result;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use super::frame::{Frame, Kind, read, write};

/// As long as a busy node lets its input gather.
const REST: Duration = Duration::from_millis(2);
const READ_BYTES: usize = 64 * 1024;

/// Gives texts that come by a trunk to those whom they name, for one front after another.
pub async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        // A front that has gone has ended its trunk.
        let _ = trunk(stream).await;
    }
}

async fn trunk(mut stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let (mut names, mut input, mut out) = (Names::default(), Vec::new(), Vec::new());
    loop {
        input.reserve(READ_BYTES);
        if stream.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
        let mut at = 0;
        while let Some((frame, length)) = read(&input[at..]) {
            names.take(&frame, &mut out);
            at += length;
        }
        input.drain(..at);
        stream.write_all(&out).await?;
        out.clear();
        sleep(REST).await;
    }
}

/// Who has which number at the other end of a trunk: the latest that came by that name.
#[derive(Default)]
struct Names {
    number_by_name: HashMap<String, u32>,
    name_by_number: HashMap<u32, String>,
}

impl Names {
    /// Learns a name, or appends a text as its recipient is to have it. One to nobody is left out.
    fn take(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        let Ok(text) = std::str::from_utf8(frame.bytes) else { return };
        match frame.kind {
            Kind::Name => {
                self.number_by_name.insert(text.to_owned(), frame.client);
                self.name_by_number.insert(frame.client, text.to_owned());
            }
            Kind::Text => {
                self.pass_on(frame.client, text, out);
            }
        }
    }

    fn pass_on(&self, client: u32, text: &str, out: &mut Vec<u8>) -> Option<()> {
        let (before, rest) = text.split_once(r#""to":""#)?;
        let (to, after) = rest.split_once('"')?;
        let (from, to) = (self.name_by_number.get(&client)?, self.number_by_name.get(to)?);
        let parts = [before, r#""from":""#, from, r#"""#, after].map(str::as_bytes);
        write(out, *to, Kind::Text, &parts);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(names: &mut Names, client: u32, kind: Kind, text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        names.take(&Frame { client, kind, bytes: text.as_bytes() }, &mut out);
        out
    }

    #[test]
    fn a_text_goes_to_the_latest_of_the_name_and_says_who_wrote_it() {
        let mut names = Names::default();
        for (number, name) in [(1, "alice"), (2, "bob"), (3, "bob")] {
            taken(&mut names, number, Kind::Name, name);
        }

        let out = taken(&mut names, 1, Kind::Text, r#"{"to":"bob","data":{"to":"carol"}}"#);

        let text = br#"{"from":"alice","data":{"to":"carol"}}"#;
        assert_eq!(read(&out).map(|(frame, _)| frame), Some(Frame { client: 3, kind: Kind::Text, bytes: text }));
    }

    #[test]
    fn a_text_to_nobody_is_left_out() {
        let mut names = Names::default();
        taken(&mut names, 1, Kind::Name, "alice");

        assert!(taken(&mut names, 1, Kind::Text, r#"{"to":"bob"}"#).is_empty());
        assert!(taken(&mut names, 2, Kind::Text, r#"{"to":"alice"}"#).is_empty());
        assert!(taken(&mut names, 1, Kind::Text, "{}").is_empty());
    }
}
