//! Command lines of the servers, from ids, addresses and options.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};

use crate::files::{TOKEN_AUDIENCE, TOKEN_ISSUER};
use crate::folder::{ADMIN_TOKEN_FILE, DISCOVERY_FILE, Folder, HASH_SEED_FILE, SECRET_FILE, TOKEN_KEY_FILE};
use crate::id::ServerId;
use crate::options::MeshOptions;
use crate::ports::Addresses;

/// Limits of one address or subject. A local mesh has none: all its clients are on this machine.
const LIMITS: [&str; 3] = ["--max-per-address", "--accept-rate-per-address", "--max-per-subject"];

/// Returns the requested address of a server's client listener. Port 0 takes any free one.
pub(crate) fn public_address(id: ServerId, options: &MeshOptions) -> SocketAddr {
    match id {
        ServerId::Balancer(number) if number == 0 || options.share_port => options.listen,
        ServerId::Balancer(_) => SocketAddr::new(options.listen.ip(), 0),
        ServerId::Node(_) => (Ipv4Addr::LOCALHOST, 0).into(),
    }
}

/// Returns the program of a server, and its arguments. The mesh's hash seed and admin token are
/// omitted if the options name other files.
pub(crate) fn command_line(
    id: ServerId,
    addresses: Addresses,
    folder: &Folder,
    options: &MeshOptions,
) -> Vec<OsString> {
    let (program, listen, further) = match id {
        ServerId::Balancer(_) => (&options.binaries.balancer, "--listen", &options.balancer_args),
        ServerId::Node(_) => (&options.binaries.node, "--public-listen", &options.node_args),
    };
    let mut discovery = OsString::from("file:");
    discovery.push(folder.file(DISCOVERY_FILE));
    let mut line: Vec<OsString> = vec![
        program.into(),
        "--id".into(),
        id.to_string().into(),
        "--internal-listen".into(),
        addresses.internal.to_string().into(),
        listen.into(),
        addresses.public.to_string().into(),
        "--discovery".into(),
        discovery,
        "--mesh-secret-file".into(),
        folder.file(SECRET_FILE).into(),
    ];
    if options.share_port && matches!(id, ServerId::Balancer(_)) {
        line.push("--reuse-port".into());
    }
    let is_given = |flag: &str| further.iter().any(|given| given.split('=').next() == Some(flag));
    for (flag, name) in [("--hash-seed-file", HASH_SEED_FILE), ("--admin-token-file", ADMIN_TOKEN_FILE)] {
        if !is_given(flag) {
            line.extend([flag.into(), folder.file(name).into()]);
        }
    }
    if options.tokens {
        line.extend(["--token-key-file".into(), folder.file(TOKEN_KEY_FILE).into()]);
        line.extend(["--token-algorithm", "HS256", "--token-audience", TOKEN_AUDIENCE].map(OsString::from));
        line.extend(["--token-issuer", TOKEN_ISSUER].map(OsString::from));
    }
    line.extend(LIMITS.iter().filter(|flag| !is_given(flag)).map(|flag| format!("{flag}=0").into()));
    line.extend(further.iter().map(OsString::from));
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binaries::Binaries;
    use ServerId::{Balancer, Node};

    #[test]
    fn command_line_has_addresses_files_and_further_flags() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let binaries = Binaries { node: "/bin/node".into(), balancer: "/bin/balancer".into() };
        let addresses = Addresses { internal: "127.0.0.1:1".parse().unwrap(), public: "127.0.0.1:2".parse().unwrap() };
        let files = "--discovery file:DIR/nodes.json --mesh-secret-file DIR/mesh.secret";
        let seed = "--hash-seed-file DIR/hash.seed";
        let token = "--admin-token-file DIR/admin.secret";
        let node = "/bin/node --id node-1 --internal-listen 127.0.0.1:1 --public-listen 127.0.0.1:2";
        let balancer = "/bin/balancer --id balancer-0 --internal-listen 127.0.0.1:1 --listen 127.0.0.1:2";
        let limits = "--max-per-address=0 --accept-rate-per-address=0 --max-per-subject=0";
        let (hold, own, own_seed) = ("--hold-ms=5000", "--admin-token-file=own", "--hash-seed-file=own");
        let cases = [
            (Node(1), hold, format!("{node} {files} {seed} {token} {limits} {hold}")),
            (Node(1), own, format!("{node} {files} {seed} {limits} {own}")),
            (Node(1), own_seed, format!("{node} {files} {token} {limits} {own_seed}")),
            (Balancer(0), own, format!("{balancer} {files} {seed} {token} {limits} --demo")),
        ];
        for (id, node_arg, expected) in cases {
            let mut options = MeshOptions::new(dir.path(), binaries.clone());
            (options.node_args, options.balancer_args) = (vec![node_arg.to_owned()], vec!["--demo".to_owned()]);

            let line = command_line(id, addresses, &folder, &options);

            let line: Vec<_> = line.iter().map(|argument| argument.to_str().unwrap()).collect();
            assert_eq!(line.join(" ").replace(folder.root.to_str().unwrap(), "DIR"), expected);
        }

        let options = MeshOptions { tokens: true, share_port: true, ..MeshOptions::new(dir.path(), binaries) };
        let line = command_line(Balancer(0), addresses, &folder, &options);
        let line: Vec<_> = line.iter().map(|argument| argument.to_str().unwrap()).collect();
        let flags = "--token-algorithm HS256 --token-audience mesh --token-issuer mesh-dev --max-per-address=0";
        assert!(line.join(" ").contains(&format!("/tokens.secret {flags}")), "{line:?}");
        assert!(line.contains(&"--reuse-port"), "{line:?}");
    }
}
