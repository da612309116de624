//! Streamers, SFUs and players in the mesh, and the ids of players that clients see.

use crate::{Dialect, name};

/// Numbers of clients are below 2^53: JavaScript counts no further.
const NUMBER_BITS: u32 = 53;
const PLAYER: &str = "Player";

/// Kind of a client, as its name in the mesh shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Player,
    /// A streamer or an SFU.
    Streamer,
}

/// A client in the mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Peer {
    /// Random number below 2^53, different for each socket.
    pub(super) number: u64,
    pub(super) kind: Kind,
}

impl Peer {
    /// Creates a client with a number from random bytes.
    pub(super) fn random(kind: Kind, random: &[u8; 32]) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = *random;
        Self { number: u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> (u64::BITS - NUMBER_BITS), kind }
    }

    /// Returns the client with a name in the mesh. `None`: it is another dialect's, or no client's.
    pub(super) fn of_name(client_id: &str) -> Option<Self> {
        let (_, number) = client_id.rsplit_once(':')?;
        let number = number.parse::<u64>().ok().filter(|number| *number >> NUMBER_BITS == 0)?;
        // The name has one form: its number has no sign and no leading zero.
        let of_kind = |kind| Self { number, kind };
        [of_kind(Kind::Player), of_kind(Kind::Streamer)].into_iter().find(|peer| peer.to_name() == client_id)
    }

    /// Returns the name in the mesh.
    pub(super) fn to_name(self) -> String {
        let kind = match self.kind {
            Kind::Player => "p",
            Kind::Streamer => "u",
        };
        name::internal(Dialect::PixelStreaming, &[kind, &self.number.to_string()])
    }

    pub(super) fn player_id(self) -> String {
        format!("{PLAYER}{}", self.number)
    }
}

/// Returns the number in a `playerId`. `None`: the text is none.
pub(super) fn player_number(player_id: &str) -> Option<u64> {
    let digits = player_id.strip_prefix(PLAYER)?;
    digits.parse().ok().filter(|number: &u64| number.to_string() == digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_below_2_to_the_53() {
        let peer = Peer::random(Kind::Player, &[255; 32]);
        assert_eq!(peer.to_name(), "~ps:p:9007199254740991");
        assert_eq!(Peer::of_name("~ps:p:9007199254740991"), Some(peer));
        assert_eq!(Peer::of_name("~ps:p:9007199254740992"), None);
    }

    #[test]
    fn name_has_one_form() {
        assert_eq!(Peer::of_name("~ps:u:7"), Some(Peer { number: 7, kind: Kind::Streamer }));
        for name in ["~ps:u:07", "~ps:u:~2B7", "~ps:u:", "~ps:s:7", "~ps:u:7:7", "~ps:7", "~rx:u:7", "u:7"] {
            assert_eq!(Peer::of_name(name), None, "{name}");
        }
    }

    #[test]
    fn player_id_has_its_number() {
        assert_eq!(player_number(&Peer { number: 3, kind: Kind::Player }.player_id()), Some(3));
        for text in ["", "Player", "Player03", "Player+3", "player3", "Player3 ", "Player99999999999999999999"] {
            assert_eq!(player_number(text), None, "{text}");
        }
    }
}
