//! The program `mesh-sim`: its digests.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn mesh_sim(options: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mesh-sim")).args(options.split_whitespace()).output().unwrap()
}

fn digests(options: &str) -> Vec<String> {
    let text = String::from_utf8(mesh_sim(&format!("{options} --digest")).stdout).unwrap();
    text.lines().filter(|line| line.starts_with("digest ")).map(str::to_owned).collect()
}

#[test]
fn digests_are_equal_in_two_processes() {
    let options = "--rooms 100 --faults 14 --seeds 0..3";
    let seen = digests(options);
    assert_eq!(seen.len(), 4);
    assert_eq!(seen, digests(options));
}

#[test]
fn digest_of_a_seed_is_equal_alone_and_in_a_range() {
    assert_eq!(digests("--seed 2"), digests("--seeds 1..4")[1..2]);
}
