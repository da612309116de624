//! Authentication of clients: tokens (JWT, RFC 7519) with identity and rights, and allowed origins.
//!
//! Only the edge that holds the client's socket verifies its token; nodes receive its grant.
//! `tokens` reads the header, selects candidate keys (`keys`), and verifies signature and
//! registered claims. It uses `jsonwebtoken` with *ring* (`provider`). `claims` converts the other
//! claims into a grant. `refusal` lists the refusals. The core rejects tokens of kicked clients.

mod args;
mod claims;
mod keys;
mod origins;
mod provider;
mod refusal;
mod tokens;

pub use self::args::{IdentityArgs, IdentityConfig};
pub use self::keys::KeyError;
pub use self::origins::{BadOrigin, Origins};
pub use self::refusal::TokenRefusal;
pub use self::tokens::{TokenRules, Tokens};
