//! The only module that calls bincode. [`take`] limits the size of a frame and returns the trailing
//! bytes. [`from_bytes`] reads values of any size and ignores trailing bytes.
//!
//! bincode is finished rather than maintained. A replacement would change this module and the
//! derives.

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use bincode::{BorrowDecode, Encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits::MAX_FRAME_BYTES;

type Config = Configuration<LittleEndian, Varint, Limit<MAX_FRAME_BYTES>>;
const CONFIG: Config = bincode::config::standard().with_limit::<MAX_FRAME_BYTES>();

/// The error of bytes that are damaged, cut short, over a limit of size, or of another version, and
/// of a malformed text.
#[derive(Debug, thiserror::Error)]
#[error("not a frame of this protocol: {0}")]
pub struct DecodeError(Box<str>);

impl DecodeError {
    /// Returns an error with its reason.
    pub fn new(why: impl Into<Box<str>>) -> Self {
        Self(why.into())
    }
}

/// Appends the encoding of `frame` to `out`.
pub fn append<T: Encode>(out: &mut Vec<u8>, frame: &T) {
    // Memory takes any write, and no type here has a fallible encoding.
    let written = bincode::encode_into_std_write(frame, out, CONFIG);
    debug_assert!(written.is_ok(), "{written:?}");
}

/// Takes one frame from the front of `bytes`, which then starts after the frame.
///
/// # Errors
/// If the bytes are no frame of this type, or claim more than [`MAX_FRAME_BYTES`]; `bytes` stays as
/// it was.
pub fn take<'a, T: BorrowDecode<'a, ()>>(bytes: &mut &'a [u8]) -> Result<T, DecodeError> {
    let (frame, used) =
        bincode::borrow_decode_from_slice(bytes, CONFIG).map_err(|error| DecodeError::new(error.to_string()))?;
    *bytes = bytes.get(used..).unwrap_or_default();
    Ok(frame)
}

/// Returns the encoding of a value without a wire type of its own, such as an operation on a room.
/// An encoding that fails is empty, and panics in a debug build.
pub fn to_bytes<T: Serialize>(value: &T) -> Vec<u8> {
    let bytes = bincode::serde::encode_to_vec(value, bincode::config::standard());
    debug_assert!(bytes.is_ok(), "{:?}", bytes.as_ref().err());
    bytes.unwrap_or_default()
}

/// Reads a value that [`to_bytes`] has written, and ignores bytes after it. Its size is bounded by
/// that of `bytes`.
///
/// # Errors
/// If the bytes are no value of this type.
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let read = bincode::serde::decode_from_slice(bytes, bincode::config::standard());
    read.map(|(value, _)| value).map_err(|error| DecodeError::new(error.to_string()))
}

/// Gives a type the methods to write and read its values one behind the other.
macro_rules! frames {
    ($frame:ident) => {
        impl<'a> $frame<'a> {
            /// Appends the frame to `out`.
            pub fn append(&self, out: &mut Vec<u8>) {
                $crate::codec::append(out, self);
            }

            /// Takes a frame from the front of `bytes`.
            ///
            /// # Errors
            /// If the bytes are no frame, or claim more than `MAX_FRAME_BYTES`; `bytes` stays as it
            /// was.
            pub fn take(bytes: &mut &'a [u8]) -> Result<Self, $crate::DecodeError> {
                $crate::codec::take(bytes)
            }
        }
    };
}
pub(crate) use frames;
