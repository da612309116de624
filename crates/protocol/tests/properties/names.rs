//! Names, hold times, resume tokens.

use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use signaling_protocol::ids::{MAX_NAME, MAX_NODE_ID};
use signaling_protocol::limits::MAX_HOLD;
use signaling_protocol::{ClientId, Left, NodeId, SessionId, resume};

proptest! {
    #[test]
    fn a_text_is_a_name_if_its_characters_and_length_are_right(text in prop_oneof![
        "[A-Za-z0-9._~:@-]{0,300}",
        "[ -~]{0,12}",
        ".{0,12}",
    ]) {
        let alphabet = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._~:@-".contains(&byte));
        let named = |max| alphabet && (1..=max).contains(&text.len());
        prop_assert_eq!(ClientId::new(&text).is_ok(), named(MAX_NAME));
        prop_assert_eq!(NodeId::new(&text).is_ok(), named(MAX_NODE_ID));
        if let Ok(id) = ClientId::new(&text) {
            prop_assert_eq!(id.as_str(), &text);
            prop_assert_eq!(&serde_json::to_string(&id).unwrap(), &format!("\"{text}\""));
        }
    }

    #[test]
    fn left_rounds_up_by_less_than_a_step_and_keeps_order(a in any::<Duration>(), b in 0..700_000_000_u64) {
        let b = Duration::from_micros(b);
        let rounded = Left::from_duration(b).as_duration();
        prop_assert!(rounded >= b.min(MAX_HOLD) && rounded <= MAX_HOLD);
        prop_assert!(rounded < b + Duration::from_millis(10));
        prop_assert_eq!(Left::from_duration(rounded), Left::from_duration(b));
        prop_assert_eq!(b.is_zero(), Left::from_duration(b) == Left::NONE);
        prop_assert!(a > b || Left::from_duration(a) <= Left::from_duration(b));
    }

    #[test]
    fn what_is_no_resume_token_proves_nothing(text in ".{0,120}", secret in "[a-z]{1,40}") {
        let alice = ClientId::new("alice").unwrap();
        prop_assert_eq!(resume::verify(secret.as_bytes(), &alice, &text, UNIX_EPOCH), None);
    }

    #[test]
    fn a_resume_token_proves_its_session(session in any::<[u8; 16]>(), id in "[A-Za-z0-9._~:@-]{1,128}", life in 1..u64::from(u32::MAX)) {
        let (client_id, session) = (ClientId::new(&id).unwrap(), SessionId(session));
        let token = resume::issue(b"secret", &client_id, session, UNIX_EPOCH + Duration::from_secs(life));
        prop_assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
        prop_assert_eq!(resume::verify(b"secret", &client_id, &token, UNIX_EPOCH), Some(session));
    }
}
