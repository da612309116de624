//! Remaining TTLs and resume tokens.

use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use signaling_protocol::ClientId;
use signaling_protocol::limits::MAX_HOLD;
use signaling_wire::{RemainingTtl, SessionId, resume};

proptest! {
    #[test]
    fn remaining_ttl_rounds_up_and_keeps_order(a in any::<Duration>(), b in 0..700_000_000_u64) {
        let b = Duration::from_micros(b);
        let rounded = RemainingTtl::from_duration(b).as_duration();
        prop_assert!(rounded >= b.min(MAX_HOLD) && rounded <= MAX_HOLD);
        prop_assert!(rounded < b + Duration::from_millis(10));
        prop_assert_eq!(RemainingTtl::from_duration(rounded), RemainingTtl::from_duration(b));
        prop_assert_eq!(b.is_zero(), RemainingTtl::from_duration(b) == RemainingTtl::NONE);
        prop_assert!(a > b || RemainingTtl::from_duration(a) <= RemainingTtl::from_duration(b));
    }

    #[test]
    fn resume_token_that_was_not_issued_is_refused(text in ".{0,120}", secret in "[a-z]{1,40}") {
        let alice = ClientId::new("alice").unwrap();
        prop_assert_eq!(resume::verify(secret.as_bytes(), &alice, &text, UNIX_EPOCH), None);
    }

    #[test]
    fn resume_token_proves_its_session(session in any::<[u8; 16]>(), id in "[A-Za-z0-9._~:@-]{1,128}", life in 1..u64::from(u32::MAX)) {
        let (client_id, session) = (ClientId::new(&id).unwrap(), SessionId(session));
        let token = resume::issue(b"secret", &client_id, session, UNIX_EPOCH + Duration::from_secs(life));
        prop_assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
        prop_assert_eq!(resume::verify(b"secret", &client_id, &token, UNIX_EPOCH), Some(session));
    }
}
