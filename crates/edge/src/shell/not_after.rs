//! The expiry of a certificate, which the TLS library does not expose.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Returns `notAfter` of an X.509 certificate in DER (RFC 5280, section 4.1), or `None` if it is
/// malformed.
pub(super) fn not_after(certificate: &[u8]) -> Option<SystemTime> {
    let (mut fields, _) = expect(SEQUENCE, expect(SEQUENCE, certificate)?.0)?;
    if let Some((_, rest)) = expect(VERSION, fields) {
        fields = rest;
    }
    // The serial number, the signature algorithm and the issuer.
    for _ in 0..3 {
        fields = take(fields)?.2;
    }
    let (_, _, behind_not_before) = take(expect(SEQUENCE, fields)?.0)?;
    let (tag, text, _) = take(behind_not_before)?;
    moment(tag, std::str::from_utf8(text).ok()?)
}

/// Returns the content of the first value, if it has this tag, and the bytes behind it.
fn expect(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    take(der).filter(|(found, ..)| *found == tag).map(|(_, content, rest)| (content, rest))
}

/// Returns tag and content of the first value, and the bytes behind it.
fn take(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = der.split_first_chunk()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // The length has 1 to 4 big-endian bytes, which is enough for any certificate.
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Parses `YYMMDDHHMMSSZ`, with a year from 1950 to 2049, or `YYYYMMDDHHMMSSZ`.
fn moment(tag: u8, text: &str) -> Option<SystemTime> {
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = number(text, 2)?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => number(text, 4)?,
        _ => return None,
    };
    let (month, rest) = number(rest, 2)?;
    let (day, rest) = number(rest, 2)?;
    let (hour, rest) = number(rest, 2)?;
    let (minute, rest) = number(rest, 2)?;
    let (second, rest) = number(rest, 2)?;
    let is_one = rest == "Z" && (1..=12).contains(&month) && (1..=31).contains(&day) && year >= 1970;
    let seconds = || (days(year, month, day) * 24 + hour) * 3_600 + minute * 60 + second;
    is_one.then(|| UNIX_EPOCH + Duration::from_secs(seconds()))
}

fn number(text: &str, digits: usize) -> Option<(u64, &str)> {
    let (number, rest) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, rest))
}

/// Returns the days since 1970 (Gregorian). Years begin in March, so that the leap day is their
/// last.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leaps = year / 4 - year / 100 + year / 400;
    year * 365 + leaps + (month * 153 + 2) / 5 + day - 719_469
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn seconds(tag: u8, text: &str) -> Option<u64> {
        moment(tag, text).map(|time| time.duration_since(UNIX_EPOCH).unwrap().as_secs())
    }

    #[test]
    fn both_ways_to_write_a_moment_are_read() {
        assert_eq!(seconds(UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(seconds(UTC_TIME, "000229235959Z"), Some(951_868_799));
        assert_eq!(seconds(UTC_TIME, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(seconds(GENERALIZED_TIME, "20500101000000Z"), Some(2_524_608_000));
        assert_eq!(seconds(GENERALIZED_TIME, "21000301000000Z"), Some(4_107_542_400));
    }

    #[test]
    fn what_is_no_moment_is_none() {
        for text in ["", "7001010000", "701301000000Z", "700100000000Z", "700101000000", "70010100000+Z", "äöüäöüäö"]
        {
            assert_eq!(moment(UTC_TIME, text), None, "{text}");
        }
        assert_eq!(moment(SEQUENCE, "700101000000Z"), None);
    }

    #[test]
    fn a_certificate_ends_when_it_says_with_or_without_a_version() {
        let validity =
            [&[SEQUENCE, 30, UTC_TIME, 13][..], b"240101000000Z", &[UTC_TIME, 13], b"300101000000Z"].concat();
        for version in [&[][..], &[VERSION, 3, 2, 1, 2]] {
            let fields = [version, &[2, 1, 7, SEQUENCE, 0, SEQUENCE, 0], &validity, &[SEQUENCE, 0]].concat();
            let length = u8::try_from(fields.len()).unwrap();
            // The long form of a length.
            let certificate = [&[SEQUENCE, 0x82, 0, length + 2, SEQUENCE, length], &fields[..]].concat();
            assert_eq!(not_after(&certificate), moment(UTC_TIME, "300101000000Z"));
            for cut in 0..certificate.len() - 2 {
                assert_eq!(not_after(&certificate[..cut]), None, "{cut}");
            }
        }
    }

    #[test]
    fn a_length_that_overflows_is_refused() {
        assert_eq!(not_after(&[SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff, 0]), None);
        assert_eq!(not_after(&[SEQUENCE, 0x88, 1, 2, 3, 4, 5, 6, 7, 8]), None);
        assert_eq!(not_after(&[SEQUENCE, 0x80]), None);
    }
}
