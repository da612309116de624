//! Random bytes from a text that `mesh-ctl secret` makes, and the keys that follow from them.
//! `mesh_secret` and `hash_seed` parse such texts.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_PAD_INDIFFERENT, URL_SAFE_PAD_INDIFFERENT};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};

/// Minimum length of the text, in decoded bytes.
const MIN_BYTES: usize = 32;

/// At least 32 bytes, from which HKDF-SHA256 without salt (RFC 5869) derives a key for each
/// purpose. No key shows anything of the bytes or of another key.
pub(crate) struct RootKey(Prk);

impl RootKey {
    /// Decodes a text, without surrounding white space. A text of hexadecimal digits alone is
    /// hexadecimal. Any other is base64 (RFC 4648): standard or URL-safe, with or without padding.
    ///
    /// # Errors
    /// If the text is neither, or has fewer than 32 bytes. The error never quotes the text. It
    /// begins with a verb whose subject is the text.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let bytes = decode(text.trim_ascii()).map_err(|why| format!("{why}; `mesh-ctl secret` makes a valid one"))?;
        Ok(Self(Salt::new(HKDF_SHA256, &[]).extract(&bytes)))
    }

    /// Derives the key for a purpose, which `context` names with a version.
    ///
    /// # Errors
    /// Never: HKDF-SHA256 has up to 8,160 bytes.
    pub(crate) fn derive(&self, context: &str) -> Result<[u8; 32], String> {
        let mut key = [0; 32];
        let derived = self.0.expand(&[context.as_bytes()], HKDF_SHA256).and_then(|derived| derived.fill(&mut key));
        derived.map(|()| key).map_err(|_| "yields no key of 32 bytes".to_owned())
    }
}

fn decode(text: &[u8]) -> Result<Vec<u8>, String> {
    let bytes = if text.iter().all(u8::is_ascii_hexdigit) { decode_hex(text)? } else { decode_base64(text)? };
    match bytes.len() {
        MIN_BYTES.. => Ok(bytes),
        length => Err(format!("must have at least {MIN_BYTES} bytes in hexadecimal or base64, has {length}")),
    }
}

fn decode_hex(digits: &[u8]) -> Result<Vec<u8>, String> {
    let pairs = digits.chunks(2).map(|pair| str::from_utf8(pair).ok().filter(|pair| pair.len() == 2));
    let bytes = pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect::<Option<_>>();
    bytes.ok_or_else(|| format!("must have an even number of hexadecimal digits, has {}", digits.len()))
}

fn decode_base64(text: &[u8]) -> Result<Vec<u8>, String> {
    let is_url_safe = text.iter().any(|byte| b"-_".contains(byte));
    let engine = if is_url_safe { URL_SAFE_PAD_INDIFFERENT } else { STANDARD_PAD_INDIFFERENT };
    engine.decode(text).map_err(|_| "must be hexadecimal or base64, is neither".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    fn refusal(text: &str) -> String {
        RootKey::parse(text.as_bytes()).err().unwrap()
    }

    fn key(text: &str) -> [u8; 32] {
        RootKey::parse(text.as_bytes()).unwrap().derive("a context").unwrap()
    }

    #[test]
    fn hex_and_base64_of_the_same_bytes_give_the_same_key() {
        let base64 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
        for text in [&HEX.to_uppercase(), &format!(" {HEX}\r\n"), base64, &format!("{base64}=")] {
            assert_eq!(key(text), key(HEX), "{text:?}");
        }
        let (standard, url_safe) = ("++++".repeat(10) + "/////w==", "----".repeat(10) + "_____w");
        assert_eq!(key(&standard), key(&url_safe));
    }

    #[test]
    fn text_of_hexadecimal_digits_is_not_base64() {
        assert!(refusal(&"0a".repeat(31)).contains("at least 32 bytes in hexadecimal or base64, has 31"));
        assert!(refusal(&HEX[1..]).contains("even number of hexadecimal digits, has 63"));
    }

    #[test]
    fn unusable_text_is_refused_without_quoting_it() {
        let short = "the-old-secret-of-ours-in-base64-is-too-s";
        for (text, part) in [
            ("", "has 0"),
            (short, "is neither"),
            (&short[..40], "has 30"),
            ("a mesh secret with spaces, which is long enough", "is neither"),
            ("++++----++++----++++----++++----++++----++++----", "is neither"),
            ("ä".repeat(40).as_str(), "is neither"),
        ] {
            let refusal = refusal(text);
            assert!(refusal.contains(part) && refusal.contains("`mesh-ctl secret`"), "{refusal}");
            assert!(text.is_empty() || !refusal.contains(text), "{refusal}");
        }
    }

    #[test]
    fn context_separates_keys() {
        let root = RootKey::parse(HEX.as_bytes()).unwrap();
        assert_ne!(root.derive("one").unwrap(), root.derive("two").unwrap());
    }
}
