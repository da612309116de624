//! Unmasking for the decoder: XOR with a key of four bytes, one word at a time.

/// Unmasks `payload`. Returns the key rotated for the next piece of the same frame.
pub(super) fn unmask(payload: &mut [u8], mut key: [u8; 4]) -> [u8; 4] {
    let [a, b, c, d] = key;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let length = payload.len();
    let (words, tail) = payload.as_chunks_mut();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, key) in tail.iter_mut().zip(key.iter().cycle()) {
        *byte ^= key;
    }
    key.rotate_left(length % 4);
    key
}
