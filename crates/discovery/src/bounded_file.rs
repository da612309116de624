//! Reads files that operators name, within a size limit, for this crate and `signaling_server`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Returns the content of a regular file of at most `max_bytes`. Blocks.
///
/// # Errors
/// If the file cannot be read, is longer (`FileTooLarge`), or is a folder, pipe or device
/// (`InvalidInput`). Opening a pipe would wait for its writer.
pub fn read_bounded(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut content = Vec::new();
    // The file may grow while it is read, so one extra byte shows that it is too long.
    File::open(path)?.take(max_bytes + 1).read_to_end(&mut content)?;
    if content.len() as u64 > max_bytes {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {max_bytes} bytes")));
    }
    Ok(content)
}
