//! The dialects, their mounts on the public listener, and their limits. The edge passes requests.

use std::str::FromStr;

use signaling_protocol::CloseCode;

use crate::peerjs::{self, Keys};
use crate::request::{Answer, Head};
use crate::{gstreamer, matchbox, pixel_streaming, rxdb, trystero, y_webrtc};

/// 1012: the server cannot serve the client now. Pixel Streaming's clients return after it.
pub(crate) const SERVICE_RESTART: CloseCode = CloseCode(1012);

/// A dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// PeerJS, clients 1.0 to 1.5.5.
    PeerJs,
    /// y-webrtc 10.
    YWebrtc,
    /// Trystero over its WebSocket relay.
    Trystero,
    /// The simple-peer handler of rxdb.
    Rxdb,
    /// Unreal Pixel Streaming, protocol 1.3.
    PixelStreaming,
    /// matchbox, clients 0.6 to 0.15, full mesh.
    Matchbox,
    /// webrtcsink, webrtcsrc and gstwebrtc-api of GStreamer.
    GStreamer,
}

/// Settings of all dialects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// `true` if clients need a JWT. A PeerJS client then claims its id by the JWT's subject.
    pub tokens: bool,
    /// Keys that PeerJS clients may use.
    pub peerjs_keys: Keys,
    /// Maximum players of a Pixel Streaming streamer, without SFUs. `None`: 10,000 with SFUs, which
    /// is the limit in any case.
    pub pixelstreaming_max_players: Option<u32>,
}

impl Dialect {
    /// All dialects in order of declaration.
    pub const ALL: [Self; 7] = [
        Self::PeerJs,
        Self::YWebrtc,
        Self::Trystero,
        Self::Rxdb,
        Self::PixelStreaming,
        Self::Matchbox,
        Self::GStreamer,
    ];

    /// Returns the code by which a server that goes away closes a client: 1012 for players and
    /// streamers of Pixel Streaming, which do not return after 1001.
    pub const fn going_away(self) -> CloseCode {
        match self {
            Self::PixelStreaming => SERVICE_RESTART,
            _ => CloseCode::GOING_AWAY,
        }
    }

    /// Returns its name, its code, and the maximum size of a client's message in bytes.
    const fn traits(self) -> (&'static str, &'static str, usize) {
        match self {
            Self::PeerJs => ("peerjs", "pj", 1024 * 1024),
            Self::YWebrtc => ("y-webrtc", "yw", 64 * 1024),
            Self::Trystero => ("trystero", "tr", 64 * 1024),
            Self::Rxdb => ("rxdb", "rx", 64 * 1024),
            Self::PixelStreaming => ("pixelstreaming", "ps", 256 * 1024),
            Self::Matchbox => ("matchbox", "mb", 64 * 1024),
            Self::GStreamer => ("gstreamer", "gs", 64 * 1024),
        }
    }

    /// Returns the name in settings, in metrics, and below the root of the public listener.
    pub const fn as_str(self) -> &'static str {
        self.traits().0
    }

    /// Returns the two letters after `~` in all names of this dialect, of clients and rooms.
    pub const fn code(self) -> &'static str {
        self.traits().1
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == name)
    }

    /// Returns the dialect whose mount contains a path of the public listener, without query, and
    /// the path below the mount for [`Head::path`]. `None`: the path is no dialect's. The caller
    /// checks whether it serves the dialect.
    ///
    /// PeerJS clients with the path `/`, their default, request `/KEY/id` for each accepted key.
    pub fn of_path<'a>(settings: &Settings, path: &'a str) -> Option<(Self, &'a str)> {
        let below_root = path.strip_prefix('/')?;
        let end = below_root.find('/').unwrap_or(below_root.len());
        let (mount, rest) = below_root.split_at(end);
        match Self::named(mount) {
            Some(dialect) => Some((dialect, rest)),
            None => settings.peerjs_keys.are_asked(mount, rest).then_some((Self::PeerJs, path)),
        }
    }

    /// Returns the maximum size of a client's message in bytes. Where `--max-message-bytes` less
    /// [`ENVELOPE_BYTES`] is lower, that is the limit. The edge closes above it with 1009.
    pub const fn max_message_bytes(self) -> usize {
        self.traits().2
    }

    /// Returns the answer to a request below the mount. `random` yields fresh ids and secrets.
    pub fn request(self, settings: &Settings, head: &Head<'_>, random: &[u8; 32]) -> Answer {
        match self {
            Self::PeerJs => peerjs::request(settings, head, random),
            Self::YWebrtc => y_webrtc::request(head, random),
            Self::Trystero => trystero::request(head, random),
            Self::Rxdb => rxdb::request(head, random),
            Self::Matchbox => matchbox::request(head, random),
            Self::GStreamer => gstreamer::request(head, random),
            Self::PixelStreaming => pixel_streaming::request(settings, head, random),
        }
    }
}

impl FromStr for Dialect {
    type Err = String;

    /// Fails for an unknown name, with a text that lists the names.
    fn from_str(name: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::as_str).join(", ");
        Self::named(name).ok_or_else(|| format!("there is no such dialect; the dialects are {}", names()))
    }
}

/// Maximum bytes that a translator adds to a client's message for the mesh.
pub const ENVELOPE_BYTES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_belongs_to_the_dialect_of_its_first_segment() {
        let settings = Settings { peerjs_keys: "peerjs,a key".parse().unwrap(), ..Settings::default() };
        for (path, found) in [
            ("/peerjs", Some((Dialect::PeerJs, ""))),
            ("/peerjs/", Some((Dialect::PeerJs, "/"))),
            ("/peerjs/peerjs/id", Some((Dialect::PeerJs, "/peerjs/id"))),
            ("/y-webrtc/a/b", Some((Dialect::YWebrtc, "/a/b"))),
            ("/pixelstreaming/player/x", Some((Dialect::PixelStreaming, "/player/x"))),
            ("/trystero", Some((Dialect::Trystero, ""))),
            ("/matchbox/room", Some((Dialect::Matchbox, "/room"))),
            ("/gstreamer/room", Some((Dialect::GStreamer, "/room"))),
            ("/a%20key/id", Some((Dialect::PeerJs, "/a%20key/id"))),
            ("/a%20key/peers", Some((Dialect::PeerJs, "/a%20key/peers"))),
            ("/a%20key", None),
            ("/a%20key/other", None),
            ("/other/id", None),
            ("/rxdbx", None),
            ("/", None),
            ("", None),
            ("/v1/connect", None),
        ] {
            assert_eq!(Dialect::of_path(&settings, path), found, "{path}");
        }
    }
}
