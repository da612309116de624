//! Who may come in: tokens (JWT, RFC 7519) that prove who a client is and say what it may do, and the pages that browsers may come
//! from.
//!
//! Tokens are verified here, where the client's socket is held, and nowhere else; nodes are told what they say. The way of a token:
//! `tokens` reads its header, finds the keys that it may be signed by (`keys`), has the signature and the registered claims checked
//! (the `jsonwebtoken` crate, with *ring* for the cryptography: `provider`), and turns the rest into what a node may know (`claims`). Why one
//! is refused: `refusal`. Whether its client was put out since, the core knows (`core::KickList`).

mod args;
mod claims;
mod keys;
mod origins;
mod provider;
mod refusal;
mod tokens;

pub use self::args::{IdentityArgs, IdentityConfig};
pub use self::keys::{KeyError, TokenAlgorithm};
pub use self::origins::{BadOrigin, Origins};
pub use self::refusal::TokenRefusal;
pub use self::tokens::{TokenRules, Tokens};
