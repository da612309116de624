use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::binaries::find_in_path;
use crate::folder::Folder;
use crate::id::ServerId;
use crate::options::MeshOptions;
use crate::ports::Addresses;

const ADMIN_TOKEN_FLAG: &str = "--admin-token-file";

/// A program and its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommandLine {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
}

/// Returns `redis://HOST:PORT/` of the mesh's Redis.
pub(crate) fn redis_url(addresses: Addresses) -> String {
    format!("redis://{}/", addresses.public)
}

/// Returns the command line of a node or balancer.
pub(crate) fn server(
    id: ServerId,
    addresses: Addresses,
    folder: &Folder,
    options: &MeshOptions,
    redis: Option<&str>,
) -> CommandLine {
    let mut discovery = OsString::from("file:");
    discovery.push(folder.discovery_file());
    let (program, listen, further) = match id {
        ServerId::Balancer(_) => (&options.binaries.balancer, "--listen", &options.balancer_args),
        _ => (&options.binaries.node, "--public-listen", &options.node_args),
    };
    let mut arguments: Vec<OsString> = vec![
        "--id".into(),
        id.to_string().into(),
        "--internal-listen".into(),
        addresses.internal.to_string().into(),
        listen.into(),
        addresses.public.to_string().into(),
        "--discovery".into(),
        discovery,
        "--mesh-secret-file".into(),
        folder.secret_file().into(),
    ];
    if let (ServerId::Node(_), Some(url)) = (id, redis) {
        arguments.extend(["--room-store".into(), url.into()]);
    }
    if !further.iter().any(|flag| flag.split('=').next() == Some(ADMIN_TOKEN_FLAG)) {
        arguments.extend([ADMIN_TOKEN_FLAG.into(), folder.admin_token_file().into()]);
    }
    arguments.extend(further.iter().map(OsString::from));
    CommandLine { program: program.clone(), arguments }
}

/// Returns the command line of a Redis without persistence.
pub(crate) fn redis(addresses: Addresses, folder: &Folder) -> Result<CommandLine> {
    let program = find_in_path("redis-server")
        .context("no redis-server in PATH; install it (`apt install redis-server`), or omit --redis")?;
    let mut arguments: Vec<OsString> = ["--bind", &addresses.public.ip().to_string()].map(Into::into).into();
    arguments.extend(["--port", &addresses.public.port().to_string()].map(OsString::from));
    arguments.extend(["--save", "", "--appendonly", "no", "--daemonize", "no", "--dir"].map(OsString::from));
    arguments.push(folder.root().into());
    Ok(CommandLine { program, arguments })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::binaries::Binaries;

    fn line_of(id: ServerId, redis: Option<&str>) -> String {
        line_with(id, redis, "--hold-ms=5000")
    }

    fn line_with(id: ServerId, redis: Option<&str>, node_arg: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let binaries = Binaries { node: "/bin/node".into(), balancer: "/bin/balancer".into() };
        let mut options = MeshOptions::new(dir.path(), binaries);
        options.node_args = vec![node_arg.into()];
        options.balancer_args = vec!["--demo".into()];
        let addresses = Addresses { internal: "127.0.0.1:1".parse().unwrap(), public: "127.0.0.1:2".parse().unwrap() };
        let line = server(id, addresses, &folder, &options, redis);
        let arguments: Vec<_> = line.arguments.iter().map(|argument| argument.to_str().unwrap()).collect();
        let root = folder.root().to_str().unwrap();
        format!("{} {}", line.program.display(), arguments.join(" ")).replace(root, "DIR")
    }

    #[test]
    fn node_command_line_has_id_addresses_discovery_and_secret() {
        assert_eq!(
            line_of(ServerId::Node(1), None),
            "/bin/node --id node-1 --internal-listen 127.0.0.1:1 --public-listen 127.0.0.1:2 --discovery file:DIR/nodes.json \
             --mesh-secret-file DIR/mesh.secret --admin-token-file DIR/admin.secret --hold-ms=5000"
        );
    }

    #[test]
    fn balancer_command_line_has_its_listener_and_flags() {
        assert_eq!(
            line_of(ServerId::Balancer(0), Some("redis://127.0.0.1:3/")),
            "/bin/balancer --id balancer-0 --internal-listen 127.0.0.1:1 --listen 127.0.0.1:2 \
             --discovery file:DIR/nodes.json --mesh-secret-file DIR/mesh.secret --admin-token-file DIR/admin.secret --demo"
        );
    }

    #[test]
    fn admin_token_of_a_flag_replaces_the_own_one() {
        let tokens = |id| {
            let line = line_with(id, None, "--admin-token-file=own");
            line.split(' ').filter(|flag| flag.starts_with(ADMIN_TOKEN_FLAG)).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(tokens(ServerId::Node(0)), ["--admin-token-file=own"]);
        assert_eq!(tokens(ServerId::Balancer(0)), [ADMIN_TOKEN_FLAG]);
    }

    #[test]
    fn node_command_line_names_the_room_store_when_it_exists() {
        let with = line_of(ServerId::Node(0), Some("redis://127.0.0.1:3/"));

        assert!(with.contains(" --room-store redis://127.0.0.1:3/ "), "{with}");
        assert!(!line_of(ServerId::Node(0), None).contains("--room-store"));
    }
}
