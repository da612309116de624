#!/usr/bin/env bats
# Tests of `make release` in a copy of the tree, with stand-ins for builds.
# shellcheck disable=SC2154,SC2164 # bats stops at a failed command, and sets output

setup() {
    cd "$BATS_TEST_DIRNAME/.."
    unset MAKEFLAGS MAKELEVEL VERSION DRY_RUN COMMIT
}

# Copies the tree's scripts and manifests into a repository with one commit, and enters it. Adds an
# unreleased change to the changelog, because the tree has none after a release.
enter_copy() {
    git ls-files -z .ci Makefile CHANGELOG.md Cargo.toml crates/client/web/package{,-lock}.json docs/admin-api.json deploy |
        xargs -0 cp --parents -t "$BATS_TEST_TMPDIR"
    cp .ci/release "$BATS_TEST_TMPDIR/.ci"
    cd "$BATS_TEST_TMPDIR"
    sed -i 's/^## \[Unreleased\]$/&\n\n- A change./' CHANGELOG.md
    printf '#!/bin/sh\necho "$0 $*" >>built\n' | tee .ci/package deploy/bin/dist >cargo
    touch Cargo.lock && chmod +x .ci/package deploy/bin/dist cargo && PATH=$PWD:$PATH
    export GIT_{AUTHOR,COMMITTER}_NAME=tester GIT_{AUTHOR,COMMITTER}_EMAIL=tester@example.com
    git init --quiet && git add . && git commit --quiet --message start
}

# Counts the lines that contain a version.
lines_with() { git grep --untracked -F "$1" -- ':!.ci' | wc -l; }

@test "dry run prints the changes and makes none" {
    enter_copy
    before=$(git status --porcelain && git diff)
    run make release VERSION=99.0.0 DRY_RUN=1
    [ "$status" -eq 0 ]
    for change in '+version = "99.0.0"' '+  "version": "99.0.0",' '+    newTag: 99.0.0' "+## [99.0.0] - 2" 'would run: cargo update'; do
        [[ $output == *"$change"* ]]
    done
    [ "$before" = "$(git status --porcelain && git diff)" ]
    [ ! -e built ]
}

@test "release writes the version and builds, but commits nothing" {
    enter_copy
    VERSION=99.0.0 .ci/release
    [ "$(lines_with 99.0.0)" -eq 10 ]
    grep -A 2 -F '## [Unreleased]' CHANGELOG.md | grep -F '## [99.0.0] - '
    [[ $(<built) == *"cargo update"*".ci/package "*"deploy/bin/dist "* ]]
    [ "$(git log --format=%s)" = start ]
    [ -z "$(git tag)" ]
}

@test "release commits and tags with COMMIT=1" {
    enter_copy
    VERSION=99.0.0 COMMIT=1 .ci/release
    [ "$(git log -1 --format=%s v99.0.0)" = "Release 99.0.0" ]
    git diff --exit-code
}

@test "release changes nothing for an invalid version or changelog" {
    enter_copy
    for version in '' 1.2 1.2.3-rc 01.2.3 0.0.9; do
        VERSION=$version run .ci/release
        [ "$status" -ne 0 ]
        [[ $output == *VERSION* ]]
    done
    sed -i 's/^- /  /' CHANGELOG.md
    VERSION=99.0.0 run .ci/release
    [ "$status" -ne 0 ]
    [[ $output == *"no unreleased change"* ]]
    [ "$(git diff --name-only)" = CHANGELOG.md ]
}
