//! Fields of a query, read as WHATWG's `URLSearchParams` reads them, and escapes of URLs and names.
//! `request`, `peerjs` and `matchbox` read queries, `name` unescapes.

/// Returns a field's decoded value. The last of repeated fields wins. `None`: there is none.
pub(crate) fn field(query: &str, name: &str) -> Option<String> {
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.rev().find(|(key, _)| decode(key) == name).map(|(_, value)| decode(value))
}

/// Decodes `+` and percent escapes. An invalid escape stays, invalid UTF-8 is replaced.
fn decode(text: &str) -> String {
    String::from_utf8_lossy(&unescape(&text.replace('+', " "), b'%')).into_owned()
}

/// Decodes bytes written as `escape` and two hexadecimal digits. An invalid escape stays.
pub(crate) fn unescape(text: &str, escape: u8) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escaped = (byte == escape).then(|| bytes.get(at + 1..at + 3).and_then(hex)).flatten();
        decoded.push(escaped.unwrap_or(byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    decoded
}

fn hex(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let [high, low] = digits else { return None };
    u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_of_repeated_fields_wins() {
        assert_eq!(field("id=a&x&id=b&ID=c", "id").as_deref(), Some("b"));
        assert_eq!((field("id", "id").as_deref(), field("", "id")), (Some(""), None));
    }

    #[test]
    fn escapes_are_decoded_and_invalid_ones_stay() {
        for (value, decoded) in
            [("a%20b+c", "a b c"), ("%zz%4", "%zz%4"), ("%C3%A4", "ä"), ("%ff", "\u{fffd}"), ("a=b.c-d_e", "a=b.c-d_e")]
        {
            assert_eq!(field(&format!("v={value}"), "v").as_deref(), Some(decoded));
        }
        assert_eq!(field("i%64=x", "id").as_deref(), Some("x"));
    }
}
