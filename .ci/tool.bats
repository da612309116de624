#!/usr/bin/env bats
# Tests of the download of tools, with stand-ins for apt-get and an old kubectl.
# shellcheck disable=SC2154,SC2164 # bats stops at a failed command, and sets output

setup() {
    cd "$BATS_TEST_DIRNAME/.."
    export CARGO_TARGET_DIR=$BATS_TEST_TMPDIR/target PATH=$BATS_TEST_TMPDIR:$PATH
    stand_in kubectl 'echo v1.20.0'
}

# Creates a program with this body.
stand_in() {
    printf '#!/bin/bash\n%s\n' "$2" >"$BATS_TEST_TMPDIR/$1"
    chmod +x "$BATS_TEST_TMPDIR/$1"
}

# Has apt-get list these mirrors, one per line with its release, and print the sources that an
# update reads.
mirrors() {
    stand_in apt-get "[[ \$1 == indextargets ]] && printf '%s' '$1' && exit
        for option; do [[ \$option == Dir::Etc::sourcelist=* ]] && cat \"\${option#*=}\"; done
        exit 1"
}

@test "tool downloads from the mirror of the machine" {
    mirrors $'http://mirror.test/debian/ bookworm-updates\nhttp://mirror.test/main/ bookworm\nhttp://other.test/ sid\n'
    run .ci/tool kubectl
    [ "$status" -ne 0 ]
    [[ $output == *"] http://mirror.test/main/ trixie main"* ]]
}

@test "tool downloads from Debian without a mirror" {
    mirrors ''
    run .ci/tool kubectl
    [[ $output == *"] http://deb.debian.org/debian trixie main"* ]]
}
