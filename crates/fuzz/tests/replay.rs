//! Replays the inputs in `corpus/`: examples, and findings of the fuzzer.

use std::fs;
use std::path::Path;

use signaling_fuzz::TARGETS;

#[test]
fn kept_inputs_show_no_fault() {
    for (name, target) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(files.len() >= 5, "{name} has {} files", files.len());
        for file in files {
            println!("{}", file.display());
            target(&fs::read(file).unwrap());
        }
    }
}

/// Kept inputs with each byte changed, and cut short: fuzzing without an engine.
#[test]
fn damaged_inputs_show_no_fault() {
    for (name, target) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        for entry in fs::read_dir(&folder).unwrap() {
            let bytes = fs::read(entry.unwrap().path()).unwrap();
            let step = bytes.len() / 64 + 1;
            for at in (0..bytes.len()).step_by(step) {
                for change in [0x01, 0x80, 0xff] {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= change;
                    target(&damaged);
                }
                target(&bytes[..at]);
            }
        }
    }
}
