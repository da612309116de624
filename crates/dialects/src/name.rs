//! Client ids and rooms of the dialects in the mesh.
//!
//! A foreign identifier becomes the name `~code:part[:part..]`. A part keeps `A-Z a-z 0-9 . _ -`.
//! Every other byte becomes `~` and two upper-case hexadecimal digits. A name over 128 bytes
//! becomes `~code:~h` and a hash of its parts, or `~code:kind:~h` in [`of_kind`]. Escaping never
//! produces `~h`. A room has the letters of its options behind the code, as in `~yw.q:TOPIC` and
//! `~yw.q:~h`.

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use signaling_protocol::ids::MAX_NAME;
use uuid::Uuid;

use crate::Dialect;
use crate::query::unescape;

const ESCAPE: u8 = b'~';
const HASHED: &str = "~h";

/// Returns the name of a foreign identifier, with at most 128 bytes.
pub(crate) fn internal(dialect: Dialect, parts: &[&str]) -> String {
    room(dialect, "", parts)
}

/// Returns the name of a room with options, as crate `rooms` reads them: `~code.options:part..`.
pub(crate) fn room(dialect: Dialect, options: &str, parts: &[&str]) -> String {
    let prefix = room_prefix(dialect, options);
    // Most names fit without another allocation.
    let mut name = String::with_capacity(64);
    name.push_str(&prefix);
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            name.push(':');
        }
        escape(&mut name, part);
        if name.len() > MAX_NAME {
            return format!("{prefix}{}", hash(parts));
        }
    }
    name
}

/// Returns an identifier as part of a name, with at most `max` bytes, which is 45 or more. A longer
/// one becomes `~h` and a hash of 43 bytes, which no escaped part equals.
pub(crate) fn part(text: &str, max: usize) -> String {
    let mut part = String::new();
    escape(&mut part, text);
    match part.len() <= max {
        true => part,
        false => hash(&[text]),
    }
}

/// Returns the name `~code.options:kind:part` of a room. The kind stays readable in a hashed name,
/// for the patterns of tokens. It has at most 16 letters.
pub(crate) fn of_kind(dialect: Dialect, options: &str, kind: &str, part: &str) -> String {
    let parts = [kind, part];
    let name = room(dialect, options, &parts);
    if is_hashed(&name) { format!("{}{kind}:{}", room_prefix(dialect, options), hash(&parts)) } else { name }
}

/// Returns the parts of a dialect's name. `None`: it is hashed, or [`internal`] does not write it.
pub(crate) fn parts(dialect: Dialect, name: &str) -> Option<Vec<String>> {
    let rest = shown_parts(dialect, name)?;
    let parts: Result<Vec<_>, _> = rest.split(':').map(|part| String::from_utf8(unescape(part, ESCAPE))).collect();
    let parts = parts.ok()?;
    // Invalid escapes, and those of bytes that need none, have no counterpart in `internal`.
    let borrowed: Vec<&str> = parts.iter().map(String::as_str).collect();
    (internal(dialect, &borrowed) == name).then_some(parts)
}

pub(crate) fn is_of(dialect: Dialect, name: &str) -> bool {
    shown_parts(dialect, name).is_some()
}

/// Returns `true` if a name of [`internal`] or [`room`] has a hash for its parts, `false` for
/// [`of_kind`].
pub(crate) fn is_hashed(name: &str) -> bool {
    name.split_once(':').is_some_and(|(_, rest)| rest.starts_with(HASHED))
}

/// Returns the credential of a claim: SHA-256 over code, name parts and the client's secret.
pub(crate) fn credential(dialect: Dialect, parts: &[&str], secret: &str) -> [u8; 32] {
    let all = std::iter::once(dialect.code()).chain(parts.iter().copied()).chain(std::iter::once(secret));
    digest(all)
}

/// Returns the first 16 random bytes as a part of 22 characters, which others cannot guess.
pub(crate) fn random_part(random: &[u8; 32]) -> String {
    URL_SAFE_NO_PAD.encode(&random[..16])
}

/// Returns a `UUIDv4` of the first 16 random bytes.
pub(crate) fn random_uuid(random: &[u8; 32]) -> Uuid {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&random[..16]);
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

pub(crate) fn of_uuid(dialect: Dialect, id: Uuid) -> String {
    format!("{}{id}", room_prefix(dialect, ""))
}

/// Returns the id in a name of [`of_uuid`]. `None`: the name is another dialect's, or has no id.
pub(crate) fn uuid(dialect: Dialect, name: &str) -> Option<Uuid> {
    parse_uuid(shown_parts(dialect, name)?)
}

/// Parses an id as the mesh writes it: lower case, with hyphens. `None`: the text is none.
pub(crate) fn parse_uuid(text: &str) -> Option<Uuid> {
    Uuid::parse_str(text).ok().filter(|id| id.to_string() == text)
}

/// Returns the begin of the names of rooms with these options. Without options it is that of ids.
pub(crate) fn room_prefix(dialect: Dialect, options: &str) -> String {
    let dot = if options.is_empty() { "" } else { "." };
    format!("~{}{dot}{options}:", dialect.code())
}

/// Returns the parts of a dialect's name as the name shows them.
fn shown_parts(dialect: Dialect, name: &str) -> Option<&str> {
    name.strip_prefix('~')?.strip_prefix(dialect.code())?.strip_prefix(':')
}

fn hash(parts: &[&str]) -> String {
    format!("{HASHED}{}", URL_SAFE_NO_PAD.encode(digest(parts.iter().copied())))
}

/// Returns SHA-256 over all parts, each behind its length in 4 bytes, big-endian.
fn digest<'a>(parts: impl Iterator<Item = &'a str>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

fn escape(name: &mut String, part: &str) {
    // A part that alone exceeds the limit is hashed: its rest is not needed.
    for byte in part.bytes().take(MAX_NAME + 1) {
        if is_plain(byte) {
            name.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(name, "~{byte:02X}");
        }
    }
}

/// Returns the foreign text of a name's last part. `shown` is the text beside it in `data`, which a
/// hashed name needs. `None`: the leading parts are others, or the text does not fit the name.
pub(crate) fn foreign<'a>(
    dialect: Dialect,
    leading: &[&str],
    name: &'a str,
    shown: Option<Cow<'a, str>>,
) -> Option<Cow<'a, str>> {
    if let Some(shown) = shown {
        let all: Vec<&str> = leading.iter().copied().chain(std::iter::once(&*shown)).collect();
        return (internal(dialect, &all) == name).then_some(shown);
    }
    let rest = shown_parts(dialect, name)?;
    // Plain bytes stand for themselves.
    if let Some((first, last)) =
        rest.rsplit_once(':').filter(|_| rest.bytes().all(|byte| is_plain(byte) || byte == b':'))
    {
        return first.split(':').eq(leading.iter().copied()).then_some(Cow::Borrowed(last));
    }
    let mut all = parts(dialect, name)?;
    let last = all.pop()?;
    (all == leading).then_some(Cow::Owned(last))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use signaling_protocol::ids::{check_name, is_reserved};

    use super::*;

    const PJ: Dialect = Dialect::PeerJs;

    #[test]
    fn name_escapes_bytes_outside_the_alphabet() {
        assert_eq!(internal(PJ, &["peerjs", "a b"]), "~pj:peerjs:a~20b");
        assert_eq!(internal(Dialect::Trystero, &[""]), "~tr:");
        assert_eq!(internal(Dialect::YWebrtc, &["~h:ä@"]), "~yw:~7Eh~3A~C3~A4~40");
    }

    #[test]
    fn name_is_hashed_over_128_bytes() {
        let fits = "a".repeat(MAX_NAME - "~rx:".len());
        assert_eq!(internal(Dialect::Rxdb, &[&fits]), format!("~rx:{fits}"));
        let name = internal(Dialect::Rxdb, &[&format!("{fits}a")]);
        assert_eq!(name, "~rx:~hTgOs2jnMmzaeFjfzGZztf-OIPN2pK4NQNYJ2J7BZQWU");
        assert!(is_hashed(&name) && parts(Dialect::Rxdb, &name).is_none());
    }

    #[test]
    fn part_is_hashed_over_its_maximum() {
        let hash = hash(&["a b"]);
        assert_eq!((part("a b", 5), part("a b", 4), hash.len()), ("a~20b".to_owned(), hash.clone(), 45));
    }

    #[test]
    fn kind_stays_readable_in_a_hashed_name() {
        let long = "a".repeat(MAX_NAME);
        assert_eq!(
            (of_kind(PJ, "1o", "s", "a b"), of_kind(PJ, "", "s", "")),
            ("~pj.1o:s:a~20b".into(), "~pj:s:".into())
        );
        let name = of_kind(PJ, "1o", "s", &long);
        assert_eq!(name.strip_prefix("~pj.1o:s:~h").map(str::len), Some(43));
        assert_ne!(name.replace("~pj.1o:s:", ""), of_kind(PJ, "1o", "sub", &long).replace("~pj.1o:sub:", ""));
    }

    #[test]
    fn name_of_an_id_has_one_form() {
        let id = random_uuid(&[255; 32]);
        assert_eq!(of_uuid(PJ, id), "~pj:ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid(PJ, &of_uuid(PJ, id)), Some(id));
        for other in [
            "~rx:ffffffff-ffff-4fff-bfff-ffffffffffff",
            "~pj:FFFFFFFF-ffff-4fff-bfff-ffffffffffff",
            "~pj:bob",
            "~pj:ffffffffffff4fffbfffffffffffffff",
        ] {
            assert_eq!(uuid(PJ, other), None, "{other}");
        }
    }

    #[test]
    fn name_of_another_dialect_has_no_parts() {
        assert_eq!(parts(Dialect::YWebrtc, "~pj:a"), None);
        assert!(is_of(PJ, "~pj:a") && !is_of(PJ, "~pjx:a") && !is_of(PJ, "pj:a"));
    }

    #[test]
    fn needless_escape_is_no_name() {
        for name in ["~pj:~41", "~pj:~7e", "~pj:~", "~pj:~4", "~pj:~FF", "~pj:a@"] {
            assert_eq!(parts(PJ, name), None, "{name}");
        }
    }

    #[test]
    fn foreign_text_of_a_hashed_name_must_fit_it() {
        let id = "ä".repeat(100);
        let name = internal(PJ, &["k", &id]);
        let shown = |text: &str| foreign(PJ, &["k"], &name, Some(text.to_owned().into())).map(Cow::into_owned);
        assert_eq!(shown(&id), Some(id.clone()));
        assert_eq!((shown("b"), foreign(PJ, &["k"], &name, None)), (None, None));
        assert_eq!(foreign(PJ, &["k"], "~pj:k:a~20b", None).as_deref(), Some("a b"));
        assert_eq!(foreign(PJ, &["other"], "~pj:k:a", None), None);
    }

    #[test]
    fn credential_depends_on_each_part() {
        let one = credential(PJ, &["k", "id"], "secret");
        for other in [
            credential(PJ, &["k", "id"], "secre"),
            credential(PJ, &["k", "i"], "dsecret"),
            credential(PJ, &["ki", "d"], "secret"),
            credential(Dialect::Rxdb, &["k", "id"], "secret"),
        ] {
            assert_ne!(one, other);
        }
    }

    proptest! {
        #[test]
        fn name_is_valid_and_reserved(all in prop::collection::vec(".{0,60}", 1..4)) {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            let name = internal(PJ, &all);
            prop_assert!(check_name(&name).is_ok() && is_reserved(&name) && is_of(PJ, &name), "{}", name);
        }

        #[test]
        fn escaped_name_has_its_parts_back(all in prop::collection::vec("[a~h:\u{0}ä]{0,8}", 1..4)) {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            let name = internal(PJ, &all);
            prop_assert!(!is_hashed(&name) && !name.contains(HASHED));
            prop_assert_eq!(parts(PJ, &name).unwrap(), all);
        }

        #[test]
        fn different_parts_have_different_names(
            one in prop::collection::vec("[ah~:]{0,4}|[~a]{60,70}", 1..4),
            other in prop::collection::vec("[ah~:]{0,4}|[~a]{60,70}", 1..4),
        ) {
            let name = |all: &[String]| internal(PJ, &all.iter().map(String::as_str).collect::<Vec<_>>());
            prop_assert_eq!(name(&one) == name(&other), one == other);
        }
    }
}
