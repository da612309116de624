use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit of open descriptors as far as it goes without privileges, and returns it.
///
/// # Errors
/// When the system refuses.
pub fn raise_descriptor_limit() -> nix::Result<u64> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok(hard)
}
