//! Clients that an operator keeps out of a room, in the fields `blocks` and `closed` of `meta`.

use std::collections::BTreeMap;

use signaling_protocol::ClientId;
use signaling_rooms::JournalBans;

/// Maximum time of a block or closure that ends. The journal may be damaged.
const MAX_TIME_MS: u64 = 24 * 3_600_000;
/// Value of `closed` without an end.
const WITHOUT_END: &str = "true";

/// Returns `blocks` and `closed`. `now_ms`: the time of the server.
pub(crate) fn to_fields(bans: &JournalBans, now_ms: u64) -> [String; 2] {
    let end = |time: u64| now_ms.saturating_add(time);
    let blocks: BTreeMap<_, _> = bans.blocks.iter().map(|(client, time)| (client.as_str(), end(*time))).collect();
    let closed = match bans.closed_for {
        None => String::new(),
        Some(u64::MAX) => WITHOUT_END.to_owned(),
        Some(time) => end(time).to_string(),
    };
    [serde_json::to_string(&blocks).unwrap_or_default(), closed]
}

/// Parses `blocks` and `closed`. Leaves out what is damaged, and what is over at `now_ms`.
pub(crate) fn of_fields(blocks: Option<&String>, closed: Option<&String>, now_ms: u64) -> JournalBans {
    let rest = |end: u64| end.checked_sub(now_ms).filter(|rest| *rest > 0).map(|rest| rest.min(MAX_TIME_MS));
    let blocks = blocks.and_then(|json| serde_json::from_str::<BTreeMap<&str, u64>>(json).ok()).unwrap_or_default();
    let blocks = blocks.into_iter().filter_map(|(client, end)| Some((ClientId::new(client).ok()?, rest(end)?)));
    let closed_for = closed.and_then(|text| match text.as_str() {
        WITHOUT_END => Some(u64::MAX),
        end => end.parse().ok().and_then(rest),
    });
    JournalBans { blocks: blocks.collect(), closed_for }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    fn read(fields: &[String; 2], now_ms: u64) -> JournalBans {
        of_fields(Some(&fields[0]), Some(&fields[1]), now_ms)
    }

    #[test]
    fn bans_have_the_rest_of_their_time_when_read() {
        let blocks = |rest: &[(&str, u64)]| rest.iter().map(|(id, time)| (ClientId::new(id).unwrap(), *time)).collect();
        let bans = JournalBans { blocks: blocks(&[("alice", 5_000), ("bob", 60_000)]), closed_for: Some(7_000) };
        let fields = to_fields(&bans, NOW);
        assert_eq!(fields, [r#"{"alice":1700000005000,"bob":1700000060000}"#, "1700000007000"]);
        let later = JournalBans { blocks: blocks(&[("bob", 54_000)]), closed_for: Some(1_000) };
        assert_eq!(read(&fields, NOW + 6_000), later);
        assert_eq!(read(&fields, NOW + 60_000), JournalBans::default());
    }

    #[test]
    fn closure_without_end_stays_and_damaged_bans_go() {
        for closed_for in [None, Some(u64::MAX)] {
            let bans = JournalBans { closed_for, ..JournalBans::default() };
            assert_eq!(read(&to_fields(&bans, NOW), NOW + 100_000_000), bans);
        }
        for damaged in ["", "{", "[]", r#"{"a b":1800000000000}"#, r#"{"bob":-1}"#] {
            assert_eq!(read(&[damaged.to_owned(), damaged.to_owned()], NOW), JournalBans::default());
        }
        assert_eq!(of_fields(None, None, NOW), JournalBans::default());
    }
}
