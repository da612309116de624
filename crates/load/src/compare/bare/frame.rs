//! What a trunk carries: the number of a client, a length, and so many bytes.

/// What the bytes of a frame are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// What the client with this number is called.
    Name,
    /// A text from it or to it.
    Text,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) client: u32,
    pub(super) kind: Kind,
    pub(super) bytes: &'a [u8],
}

const HEAD_BYTES: usize = 8;
/// Set in the length of a name.
const NAME: u32 = 1 << 31;

/// Appends a frame made of these parts.
pub(super) fn write(out: &mut Vec<u8>, client: u32, kind: Kind, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    // A part of a text is part of a message, whose length has a limit far below this.
    let length = u32::try_from(length).unwrap_or(u32::MAX) & !NAME;
    out.extend(client.to_le_bytes());
    out.extend((if kind == Kind::Name { length | NAME } else { length }).to_le_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// The frame that `bytes` begins with, and how long it is with its head; `None` as long as it is not whole.
pub(super) fn read(bytes: &[u8]) -> Option<(Frame<'_>, usize)> {
    let (client, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let length = u32::from_le_bytes(*length);
    let kind = if length & NAME == 0 { Kind::Text } else { Kind::Name };
    let bytes = rest.get(..(length & !NAME) as usize)?;
    Some((Frame { client: u32::from_le_bytes(*client), kind, bytes }, HEAD_BYTES + bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written_and_only_when_they_are_whole() {
        let mut bytes = Vec::new();
        write(&mut bytes, 7, Kind::Name, &[b"alice"]);
        let first = bytes.len();
        write(&mut bytes, 70_000, Kind::Text, &[b"to ", b"bob"]);

        assert_eq!(read(&bytes), Some((Frame { client: 7, kind: Kind::Name, bytes: b"alice" }, first)));
        let second = Frame { client: 70_000, kind: Kind::Text, bytes: b"to bob" };
        assert_eq!(read(&bytes[first..]), Some((second, bytes.len() - first)));
        assert!((0..first).all(|end| read(&bytes[..end]).is_none()));
    }
}
