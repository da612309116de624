//! The limit of open files, one for each client. Both servers raise it at their start.

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit of open files to the hard limit, and returns that number of descriptors.
///
/// # Errors
/// If the system refuses. The limit then stays.
pub fn raise_open_files() -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(hard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_in_force_becomes_the_highest_allowed() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!(raise_open_files().unwrap(), hard);
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (hard, hard));
    }
}
