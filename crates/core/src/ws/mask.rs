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

#[cfg(test)]
mod tests {
    use super::unmask;

    #[test]
    fn unmask_continues_across_pieces() {
        let key = [0x11, 0x22, 0x44, 0x88];
        let masked: Vec<u8> = (0..67).collect();
        let expected: Vec<u8> = (0..67u8).map(|i| i ^ key[usize::from(i) % 4]).collect();

        for cut in 0..=masked.len() {
            let mut pieces = masked.clone();
            let (head, tail) = pieces.split_at_mut(cut);
            let turned = unmask(head, key);
            unmask(tail, turned);
            assert_eq!(pieces, expected, "cut at {cut}");
        }
    }
}
