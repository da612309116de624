//! Golden bytes: what each release writes, so that a later one cannot change it unseen. `README.md` beside this file
//! says how a set is made.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod samples;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use std::{env, fs};

use signaling_protocol::forward::{self, Item};
use signaling_protocol::trunk::{ToEdge, ToNode};
use signaling_protocol::{ClientId, resume};

/// A frame's name and its bytes.
type Set = Vec<(&'static str, Vec<u8>)>;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "{text}");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect(text)).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn current_release() -> String {
    concat!("v", env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR")).into()
}

/// The releases that have a set, oldest first.
fn releases() -> Vec<String> {
    let names = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let number = |name: &str| -> Option<(u32, u32)> {
        let (major, minor) = name.strip_prefix('v')?.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    let by_number: BTreeMap<_, _> = names.filter_map(|name| Some((number(&name)?, name))).collect();
    by_number.into_values().collect()
}

/// What this release writes, by file name.
fn written_now() -> [(&'static str, Set); 4] {
    fn set<T>(samples: Vec<(&'static str, T)>, append: impl Fn(&T, &mut Vec<u8>)) -> Set {
        let write = |(name, sample): (&'static str, T)| {
            let mut bytes = Vec::new();
            append(&sample, &mut bytes);
            (name, bytes)
        };
        samples.into_iter().map(write).collect()
    }
    [
        ("to_node.hex", set(samples::to_node(), ToNode::append)),
        ("to_edge.hex", set(samples::to_edge(), ToEdge::append)),
        ("forward_start.hex", set(vec![("header", samples::header())], |header, out| forward::start(out, header))),
        ("forward_item.hex", set(samples::items(), Item::append)),
    ]
}

fn render(set: &Set) -> String {
    set.iter().map(|(name, bytes)| format!("{name} {}\n", hex(bytes))).collect()
}

/// A kept file of one release: bytes by name.
fn kept(release: &str, file: &str) -> BTreeMap<String, Vec<u8>> {
    let path = root().join(release).join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines()
        .map(|line| {
            let (name, bytes) = line.split_once(' ').expect(line);
            (name.into(), unhex(bytes))
        })
        .collect()
}

fn write_missing_set() {
    let folder = root().join(current_release());
    if folder.exists() || env::var_os("UPDATE_GOLDEN").is_none_or(|value| value != "1") {
        return;
    }
    // The other tests run meanwhile and must not meet half a set.
    let unfinished = root().join("unfinished");
    fs::create_dir_all(&unfinished).unwrap();
    for (file, set) in written_now() {
        fs::write(unfinished.join(file), render(&set)).unwrap();
    }
    fs::write(unfinished.join("resume_token.txt"), format!("{}\n", samples::resume_token())).unwrap();
    fs::rename(unfinished, folder).unwrap();
}

#[test]
fn this_release_writes_the_bytes_that_were_kept_of_it() {
    write_missing_set();
    let release = current_release();
    assert!(
        root().join(&release).is_dir(),
        "tests/golden/{release} is missing: run `UPDATE_GOLDEN=1 cargo test -p signaling-protocol --test golden` once, and commit it"
    );
    for (file, set) in written_now() {
        let text = fs::read_to_string(root().join(&release).join(file)).unwrap();
        assert_eq!(text, render(&set), "{release}/{file}");
    }
    let token = fs::read_to_string(root().join(&release).join("resume_token.txt")).unwrap();
    assert_eq!(token.trim_end(), samples::resume_token());
}

#[test]
fn this_release_reads_what_every_kept_release_wrote() {
    fn check<'a, T: PartialEq + std::fmt::Debug>(
        kept: &'a BTreeMap<String, Vec<u8>>,
        samples: Vec<(&'static str, T)>,
        take: impl Fn(&mut &'a [u8]) -> T,
    ) {
        let mut samples: BTreeMap<_, _> = samples.into_iter().collect();
        for (name, bytes) in kept {
            let mut bytes = &**bytes;
            let sample = samples.remove(&**name).unwrap_or_else(|| panic!("no sample {name} any more"));
            assert_eq!(take(&mut bytes), sample, "{name}");
            assert!(bytes.is_empty(), "{name}");
        }
    }
    for release in releases() {
        let release = &*release;
        check(&kept(release, "to_node.hex"), samples::to_node(), |bytes| ToNode::take(bytes).expect(release));
        check(&kept(release, "to_edge.hex"), samples::to_edge(), |bytes| ToEdge::take(bytes).expect(release));
        check(&kept(release, "forward_item.hex"), samples::items(), |bytes| Item::take(bytes).expect(release));
        let start = kept(release, "forward_start.hex");
        check(&start, vec![("header", samples::header())], |bytes| forward::open(bytes).expect(release));

        let token = fs::read_to_string(root().join(release).join("resume_token.txt")).unwrap();
        let now = UNIX_EPOCH + samples::TOKEN_EXPIRY - Duration::from_secs(1);
        let alice = ClientId::new("alice").unwrap();
        assert_eq!(resume::verify(samples::SECRET, &alice, token.trim_end(), now), Some(samples::SESSION), "{release}");
    }
}

#[test]
fn every_variant_has_a_sample() {
    /// A variant's number is its first byte, and zeros behind it are valid fields of every variant.
    fn check(set: &Set, readable: impl Fn(&[u8]) -> bool) {
        let mut zeros = [0; 256];
        for variant in 0..=250 {
            zeros[0] = variant;
            let sampled = set.iter().any(|(_, bytes)| bytes.first() == Some(&variant));
            assert_eq!(readable(&zeros), sampled, "variant {variant}");
        }
    }
    let [(_, to_node), (_, to_edge), _, (_, items)] = written_now();
    check(&to_node, |mut bytes| ToNode::take(&mut bytes).is_ok());
    check(&to_edge, |mut bytes| ToEdge::take(&mut bytes).is_ok());
    check(&items, |mut bytes| Item::take(&mut bytes).is_ok());
}
