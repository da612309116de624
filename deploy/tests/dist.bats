#!/usr/bin/env bats
# Tests of `make dist`: its files, the systemd units of the Debian package, and a mesh from both.
# Programs of `make test` stand in for static ones.
# shellcheck disable=SC2154,SC2164 # bats stops at a failed command, and sets output

bats_require_minimum_version 1.5.0

setup_file() {
    cd "$BATS_TEST_DIRNAME/../.."
    export BUILT=${CARGO_TARGET_DIR:-$PWD/target}/debug FAKE=$BATS_FILE_TMPDIR/fake
    mkdir "$FAKE"
    for program in signaling-node signaling-balancer mesh-ctl mesh-load mesh-dev; do
        printf '#!/bin/sh\necho "%s $*"\n' $program >"$FAKE/$program"
    done
    chmod +x "$FAKE"/*
    # shellcheck disable=SC2031 # each test is a process of its own
    export CARGO_TARGET_DIR=$BATS_FILE_TMPDIR/target COMPRESSION=none
    PROGRAMS=$FAKE deploy/bin/dist >"$BATS_FILE_TMPDIR/dist"
    cd "$BATS_FILE_TMPDIR" && mkdir archive package
    tar -xzf target/dist/*.tar.gz -C archive --strip-components 1
    dpkg-deb --raw-extract target/dist/*.deb package
}

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
    export CARGO_TARGET_DIR=$BATS_TEST_TMPDIR/target
    archive=$BATS_FILE_TMPDIR/archive package=$BATS_FILE_TMPDIR/package
}

# Ends processes of a test that failed.
teardown() {
    # shellcheck disable=SC2086 # several words
    kill ${started:-} 2>/dev/null || true
}

# Skips a test that cannot run here, or fails it in CI.
cannot() {
    [[ ${CI:-} != true ]] || { echo "$1" && return 1; }
    skip "$1"
}

needs_built_programs() {
    for program in signaling-node signaling-balancer mesh-ctl mesh-load mesh-dev; do
        [[ -x $BUILT/$program ]] || cannot "needs the programs of cargo build --workspace --bins"
    done
}

# Repeats a command until it succeeds, for at most 15 s.
eventually() {
    for _ in {1..75}; do
        "$@" >/dev/null 2>&1 && return
        sleep 0.2
    done
    echo "not in time: $*" && return 1
}

@test "dist has the same bytes in another folder and time" {
    TZ=Asia/Tokyo PROGRAMS=$FAKE deploy/bin/dist
    diff -r "$BATS_FILE_TMPDIR/target/dist" "$CARGO_TARGET_DIR/dist"
}

@test "dist lists checksums of its files" {
    cd "$(<"$BATS_FILE_TMPDIR/dist")"
    sha256sum --check --strict SHA256SUMS
    [ "$(wc -l <SHA256SUMS)" -eq 3 ]
}

@test "dist names a missing program" {
    mkdir "$BATS_TEST_TMPDIR/empty"
    PROGRAMS=$BATS_TEST_TMPDIR/empty run deploy/bin/dist
    [ "$status" -ne 0 ]
    [[ $output == *"has no signaling-node: leave PROGRAMS empty"* ]]
}

@test "archive has programs, completions, examples and licences" {
    cd "$archive"
    for file in signaling-node signaling-balancer mesh-ctl mesh-load mesh-dev; do [ -x $file ]; done
    for shell in bash zsh fish; do [ "$(<completions/mesh-ctl.$shell)" = "mesh-ctl completions $shell" ]; done
    diff "$BATS_TEST_DIRNAME/../../LICENSE" LICENSE
    grep -q '^ring [0-9.]* (' licenses/crates.txt
    grep -q 'GNU Lesser General Public' licenses/glibc.txt
    grep -qi 'standard library' licenses/rust-std.html
    diff -r "$BATS_TEST_DIRNAME/../debian/examples" examples
}

@test "SBOM lists each linked crate with its checksum" {
    bom=$archive/sbom.cdx.json
    [ "$(jq -r '.bomFormat + .specVersion' "$bom")" = CycloneDX1.5 ]
    [ "$(jq '[.components[] | select(.name | startswith("signaling-") | not) | select(.purl | startswith("pkg:cargo/")) | select(.hashes)] | length > 100' "$bom")" = true ]
    # Test tools and macros are not linked.
    [ "$(jq '[.components[] | select(.name == ("proptest", "serde_derive", "signaling-simulation"))] | length' "$bom")" -eq 0 ]
    [ "$(jq '[.dependencies[].dependsOn[]] - [.components[]."bom-ref"] | length' "$bom")" -eq 0 ]
    checksum=$(jq -r '.components[] | select(.name == "ring").hashes[0].content' "$bom")
    grep -A 4 '^name = "ring"$' Cargo.lock | grep -qF "checksum = \"$checksum\""
}

@test "package starts nothing and belongs to root" {
    [ -z "$(dpkg-deb --contents "$BATS_FILE_TMPDIR"/target/dist/*.deb | grep -v ' root/root ')" ]
    [ -z "$(ls "$package/etc/signaling-mesh")" ]
    [ ! -e "$package/etc/systemd" ]
    run ! grep -rE 'systemctl (start|enable|restart)' "$package/DEBIAN"
    (cd "$package" && md5sum --check --quiet DEBIAN/md5sums)
    grep -q '^Version: [0-9]' "$package/DEBIAN/control"
}

@test "units pass the checks of systemd" {
    command -v systemd-analyze >/dev/null || cannot "needs systemd-analyze"
    for server in node balancer; do
        unit=$BATS_TEST_TMPDIR/signaling-$server@.service
        sed "s|/usr/bin/signaling|$FAKE/signaling|" "$package/usr/lib/systemd/system/signaling-$server@.service" >"$unit"
        run systemd-analyze verify --man=no "$unit"
        [ "$status" -eq 0 ]
        [ "$output" = "" ]
        systemd-analyze security --offline=true --threshold=15 "$unit"
    done
}

@test "units wait longer than a drain takes" {
    drain=$(sed -nE 's/^\| `--drain-ms MS` .* `([0-9]+)` .*/\1/p' docs/CONFIG.md)
    for unit in deploy/debian/*.service; do
        [ $(($(sed -n 's/^TimeoutStopSec=//p' "$unit") * 1000)) -gt "$drain" ]
    done
}

@test "unpacked archive starts a mesh with the demo page" {
    needs_built_programs
    mkdir "$BATS_TEST_TMPDIR/unpacked" && cd "$BATS_TEST_TMPDIR/unpacked"
    ln "$BUILT"/{signaling-node,signaling-balancer,mesh-ctl,mesh-dev} . || cp "$BUILT"/{signaling-node,signaling-balancer,mesh-ctl,mesh-dev} .
    ./mesh-dev up --listen 127.0.0.1:0 >greeting 2>log 3>&- &
    started=$!
    eventually grep -q '^  page ' greeting
    curl -fsS "$(awk '$1 == "page" { print $2 }' greeting)" | grep -q 'signaling-mesh.mjs\|app.js'
    # The report of a node that has just started can be empty.
    three_nodes() { [ "$(./mesh-ctl nodes | grep -c '^node-')" -eq 3 ]; }
    eventually three_nodes
    ./mesh-dev down
    wait
}

# Runs the commands of deploy/debian/README.md in a folder of this test, and the command lines of
# the units in place of systemd.
@test "command lines of the units start a configured mesh" {
    needs_built_programs
    etc=$BATS_TEST_TMPDIR/etc
    mkdir "$etc"
    here() { sed "s|/etc/signaling-mesh|$etc|g; s|/usr/share/doc/signaling-mesh|$PWD/deploy/debian|g; s|/usr/bin/|$BUILT/|g; s|%S|$BATS_TEST_TMPDIR|g; s|%i|${1:-}|g" "${@:2}"; }
    start() {
        local server=$1 instance=$2 unit=deploy/debian/signaling-$1@.service check line
        check=$(here "$instance" "$unit" | sed -n 's/^ExecStartPre=//p')
        line=$(here "$instance" "$unit" | sed -n 's/^ExecStart=//p')
        for file in $(here "$instance" "$unit" | sed -n 's/^AssertPathExists=//p'); do [ -f "$file" ]; done
        mkdir -p "$BATS_TEST_TMPDIR/signaling-mesh/$server-$instance"
        # shellcheck disable=SC1090,SC2086 # several words
        (set -a && source "$etc/$server-$instance.env" && $check && exec $line >"$BATS_TEST_TMPDIR/$server-$instance.log" 2>&1 3>&-) &
        started+=" $!"
    }
    started=
    awk '/^```sh$/ { inside = 1; next } /^```$/ { inside = 0 } inside' deploy/debian/README.md >"$BATS_TEST_TMPDIR/commands"
    grep -vE '^(chgrp|systemctl)' "$BATS_TEST_TMPDIR/commands" | here "" >"$BATS_TEST_TMPDIR/configure"
    PATH=$BUILT:$PATH bash -euo pipefail "$BATS_TEST_TMPDIR/configure"
    sed -i "s|/etc/signaling-mesh|$etc|" "$etc"/*.toml
    # The addresses of the examples may be in use here.
    for port in 7901 7902 7911 8080; do
        free=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
        sed -i "s/:$port\b/:$free/" "$etc"/*.env "$etc"/*.toml "$etc/nodes.json"
    done
    start node 1
    start node 2
    start balancer 1
    internal() { sed -n 's/^SIGNALING_INTERNAL_LISTEN=//p' "$etc/$1.env"; }
    eventually curl -fsS "http://$(internal balancer-1)/readyz"
    [ "$("$BUILT/mesh-ctl" --server "http://$(internal node-1)" --secret-file "$etc/admin.token" nodes | grep -c '^node-')" -eq 2 ]
    # shellcheck disable=SC2086 # several words
    kill $started
    wait
}

@test "package is installed, run by systemd and removed" {
    needs_built_programs
    [ -x /lib/systemd/systemd ] || cannot "needs systemd"
    # CI may run without these rights. The test above runs the same command lines.
    unshare --mount --pid --fork true 2>/dev/null || skip "needs root and namespaces"
    mkdir "$BATS_TEST_TMPDIR/programs"
    for program in signaling-node signaling-balancer mesh-ctl mesh-load mesh-dev; do
        strip -o "$BATS_TEST_TMPDIR/programs/$program" "$BUILT/$program" || cp "$BUILT/$program" "$BATS_TEST_TMPDIR/programs"
    done
    package=$BATS_TEST_TMPDIR/package.deb
    cp -r "$archive" "$BATS_TEST_TMPDIR/stage" && cp "$BATS_TEST_TMPDIR"/programs/* "$BATS_TEST_TMPDIR/stage"
    SOURCE_DATE_EPOCH=0 deploy/debian/build "$(dpkg --print-architecture)" 0.1.0 "$BATS_TEST_TMPDIR/stage" "$package"
    run deploy/tests/debian "$package" "$BATS_TEST_TMPDIR/programs"
    echo "$output"
    [ "$status" -eq 0 ]
}
