//! Names of clients and nodes.

use proptest::prelude::*;
use signaling_protocol::ids::{MAX_NAME, MAX_NODE_ID};
use signaling_protocol::{ClientId, NodeId};

proptest! {
    #[test]
    fn text_is_a_name_if_alphabet_and_length_are_valid(text in prop_oneof![
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
}
