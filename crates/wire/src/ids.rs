//! Random ids of sessions, sockets and process starts. The caller supplies the random bytes.

use std::fmt;
use std::str::FromStr;

use crate::DecodeError;

macro_rules! random {
    ($($(#[$doc:meta])* $type:ident[$bytes:literal];)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(bincode::Encode, bincode::Decode, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(test, derive(arbitrary::Arbitrary))]
        pub struct $type(pub [u8; $bytes]);

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )+};
}

random! {
    /// A session: random bytes, kept through handoffs and resumes. The last bit is set if the
    /// client is reliable, for servers that have only the client's messages. The default is none.
    #[derive(Default)]
    SessionId[16];
    /// A client's socket: random bytes of its edge. The default is none.
    #[derive(Default)]
    SocketId[8];
    /// One start of a process: random bytes that differ after a restart under the same name.
    Incarnation[8];
}

impl FromStr for Incarnation {
    type Err = DecodeError;

    /// Reads the form in which it is displayed: 16 hexadecimal digits. Fails for any other text.
    fn from_str(text: &str) -> Result<Self, DecodeError> {
        match u64::from_str_radix(text, 16) {
            Ok(number) if text.len() == 16 && !text.starts_with('+') => Ok(Self(number.to_be_bytes())),
            _ => Err(DecodeError::new("an incarnation has 16 hexadecimal digits")),
        }
    }
}

impl SessionId {
    /// Returns a session id of random bytes, with the last bit replaced.
    pub fn new(mut random: [u8; 16], reliable: bool) -> Self {
        random[15] = random[15] & !1 | u8::from(reliable);
        Self(random)
    }

    /// Returns `true` if the client numbers its messages and retransmits them after a resume.
    pub fn is_reliable(self) -> bool {
        self.0[15] & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_id_keeps_whether_its_client_is_reliable() {
        for drawn in [[0; 16], [255; 16]] {
            assert!(SessionId::new(drawn, true).is_reliable());
            assert!(!SessionId::new(drawn, false).is_reliable());
            assert_eq!(SessionId::new(drawn, true).0[..15], drawn[..15]);
        }
    }

    #[test]
    fn random_ids_print_as_hexadecimal() {
        let incarnation = Incarnation([0, 1, 2, 3, 0xfc, 0xfd, 0xfe, 0xff]);
        assert_eq!(incarnation.to_string(), "00010203fcfdfeff");
        assert_eq!("00010203fcfdfeff".parse::<Incarnation>().ok(), Some(incarnation));
        assert!("+0010203fcfdfeff".parse::<Incarnation>().is_err());
        assert!("0010203fcfdfeff".parse::<Incarnation>().is_err());
    }
}
