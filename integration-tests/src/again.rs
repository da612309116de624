//! A test that runs itself again elsewhere, as a process of its own.

use std::ffi::OsString;

/// The command that runs one test of this program, by its full path (`file::function`), be it ignored or not.
pub(crate) fn again(test: &str) -> Vec<OsString> {
    let exe = std::env::current_exe().unwrap();
    let args = ["--exact", test, "--include-ignored"];
    let listed = std::process::Command::new(&exe).args(args).args(["--list", "--format", "terse"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&listed.stdout).trim(), format!("{test}: test"), "no test is called so");
    [exe.into()].into_iter().chain(args.map(Into::into)).chain(["--nocapture".into()]).collect()
}
