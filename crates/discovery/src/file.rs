//! Views from a file that is read every [`POLL_INTERVAL`]. Polling works on every filesystem and
//! with every way of writing. Also reads other files that operators name, within a size limit.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::ReadError;
use crate::following::{News, NewsSender};
use signaling_membership::{NodeEntry, View};

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

/// Maximum length of the file in bytes, enough for some 10,000 nodes.
const MAX_BYTES: u64 = 1024 * 1024;

/// Reads and parses a file. Blocks. Fails with [`ReadError::Unreadable`] or
/// [`ReadError::Malformed`].
pub(crate) fn read(path: &Path) -> Result<View, ReadError> {
    let content = read_bounded(path, MAX_BYTES).map_err(|error| ReadError::Unreadable(error.to_string()))?;
    parse(&content)
}

fn parse(content: &[u8]) -> Result<View, ReadError> {
    if content.trim_ascii().is_empty() {
        return Err(ReadError::Malformed("it is empty; write [] for an empty mesh".into()));
    }
    let members: Vec<NodeEntry> =
        serde_json::from_slice(content).map_err(|error| ReadError::Malformed(error.to_string()))?;
    View::new(members).map_err(|error| ReadError::Malformed(error.to_string()))
}

const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Reads the file and sends its view or error every [`POLL_INTERVAL`]. Runs until dropped.
pub(crate) async fn follow(path: PathBuf, sender: NewsSender) {
    loop {
        sleep(POLL_INTERVAL).await;
        sender.send(read_news(&path).await).await;
    }
}

/// Reads the file once, and returns [`News::View`] with its view or error.
pub(crate) async fn read_news(path: &Path) -> News {
    let path = path.to_owned();
    let reading = spawn_blocking(move || read(&path)).await;
    News::View(reading.unwrap_or_else(|error| Err(ReadError::Unreadable(error.to_string()))))
}

#[cfg(test)]
mod tests {
    use signaling_membership::Zone;

    use super::*;

    const TWO: &str = r#"[{"id":"b","address":"h:2","draining":true},{"id":"a","address":"h:1","zone":"x","rack":1}]"#;

    #[test]
    fn draining_and_zone_are_optional_and_other_fields_are_ignored() {
        let view = parse(TWO.as_bytes()).unwrap();
        assert_eq!(view.len(), 2);
        assert!(view.get("b").unwrap().draining);
        assert!(!view.get("a").unwrap().draining);
        let zone = |id| view.get(id).unwrap().zone.as_ref().map(Zone::as_str);
        assert_eq!((zone("a"), zone("b")), (Some("x"), None));
    }

    #[test]
    fn empty_list_is_a_view_and_an_empty_file_is_not() {
        assert_eq!(parse(b" [] "), Ok(View::default()));
        assert!(parse(b" \n").unwrap_err().to_string().contains("write [] for an empty mesh"));
    }

    #[test]
    fn bad_content_is_explained() {
        for (content, part) in [
            (r#"{"id":"a"}"#, "expected a sequence"),
            (r#"[{"id":"a"}]"#, "missing field `address`"),
            (r#"[{"id":"a b","address":"h:1"}]"#, "may have only A-Z"),
            (r#"[{"id":"a","address":"h"}]"#, "has no port"),
            (r#"[{"id":"a","address":"h:1","zone":""}]"#, "the zone must not be empty at line 1 column 37"),
            (r#"[{"id":"a","address":"h:1"},{"id":"a","address":"h:2"}]"#, "a appears twice"),
        ] {
            let message = parse(content.as_bytes()).unwrap_err().to_string();
            assert!(message.contains(part), "{content}: {message:?}");
        }
    }

    #[test]
    fn absent_special_or_large_file_is_unreadable() {
        let dir = tempfile::tempdir().unwrap();
        let large = dir.path().join("large");
        File::create(&large).unwrap().set_len(MAX_BYTES + 9).unwrap();
        for path in [&dir.path().join("absent"), dir.path(), &large] {
            assert!(matches!(read(path), Err(ReadError::Unreadable(_))), "{}", path.display());
        }
    }

    #[test]
    fn no_part_of_a_list_is_taken_for_the_list() {
        assert!((0..TWO.len()).all(|len| parse(&TWO.as_bytes()[..len]).is_err()));
    }
}
