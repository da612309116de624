//! The program `mesh-sim`: its digests and presets.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

use clap::ValueEnum as _;
use signaling_simulation::Preset;

fn mesh_sim(options: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mesh-sim")).args(options.split_whitespace()).output().unwrap()
}

fn digests(options: &str) -> Vec<String> {
    let text = String::from_utf8(mesh_sim(&format!("{options} --digest")).stdout).unwrap();
    text.lines().filter(|line| line.starts_with("digest ")).map(str::to_owned).collect()
}

#[test]
fn digests_are_equal_in_two_processes() {
    for preset in Preset::value_variants() {
        let options = format!("--preset {} --seeds 0..3", preset.name());
        let seen = digests(&options);
        assert_eq!(seen.len(), 4, "{options}");
        assert_eq!(seen, digests(&options), "{options}");
    }
}

#[test]
fn digest_of_a_seed_is_equal_alone_and_in_a_range() {
    assert_eq!(digests("--seed 2"), digests("--seeds 1..4")[1..2]);
}

#[test]
fn options_replace_those_of_a_preset() {
    let replaced = digests("--preset parted --kinds flap --faults 3 --seeds 0..2");
    assert_eq!(replaced, digests("--rooms 100 --faults 3 --kinds flap --seeds 0..2"));
    assert_ne!(replaced, digests("--preset parted --seeds 0..2"));
}

#[test]
fn failure_can_be_replayed_with_its_preset() {
    let failed = mesh_sim("--preset rooms --mutant seat-drops --seeds 0..20");
    let text = String::from_utf8(failed.stderr).unwrap();
    let (_, replay) = text.trim_end().split_once("replay with ").unwrap();
    assert!(replay.starts_with("--preset rooms --seed "), "{replay}");
    assert!(!mesh_sim(&format!("{replay} --mutant seat-drops")).status.success());
}
