#!/usr/bin/env bats
# Tests of the Makefile targets for deployment. Stand-ins for docker, kind and kubectl record their
# calls. The real kubectl renders the manifests.
# shellcheck disable=SC2154,SC2164 # bats stops at a failed command, and sets stderr

bats_require_minimum_version 1.5.0

setup_file() {
    cd "$BATS_TEST_DIRNAME/../.."
    REAL_KUBECTL=$(.ci/tool kubectl)
    export REAL_KUBECTL
}

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
    unset MAKEFLAGS MAKELEVEL CLUSTER CONTEXT REGISTRY OVERLAY PLATFORMS LOAD DOCKER KIND KUBECTL PORT
    export ANSWERS=$BATS_TEST_TMPDIR CARGO_TARGET_DIR=$BATS_TEST_TMPDIR/target TAG=v1
    mkdir "$ANSWERS/bin"
    for tool in docker kind kubectl; do
        ln -s "$BATS_TEST_DIRNAME/stand-in" "$ANSWERS/bin/$tool"
    done
    ln -s "$(type -P true)" "$ANSWERS/bin/sleep"
    PATH=$ANSWERS/bin:$PATH
    says clusters another
    says ready 3
    says variables POD_NAME SIGNALING_ALLOW_ANONYMOUS
    says job 1/
    says digest "sha256:$(printf '5e%.0s' {1..32})"
}

says() { printf '%s\n' "${*:2}" >"$ANSWERS/$1"; }
own_cluster() { export CONTEXT=prod REGISTRY=registry.test/team; }
forget() { rm -f "$ANSWERS/calls"; }
# Prints the calls without values that differ from commit to commit.
calls() { sed -E "s|$CARGO_TARGET_DIR/deploy|@|g; s|--from-file=.*|--from-file=|; s/(VERSION|REVISION|SOURCE)=[^ ]*/\1=/g" "$ANSWERS/calls"; }
called() { calls | grep -qF -- "$1"; }
not_called() { if called "$1"; then calls && false; fi; }

fails_with() {
    run make "$1"
    [ "$status" -ne 0 ]
    [[ ${output//"$CARGO_TARGET_DIR/deploy"/@} == *"$2"* ]]
}

LABELS="--build-arg VERSION= --build-arg REVISION= --build-arg SOURCE="
ON_KIND="kubectl --kubeconfig @/kubeconfig-signaling --context kind-signaling"
DELETES_CLUSTER="kind delete cluster --name signaling --kubeconfig @/kubeconfig-signaling"
DELETES_MESH="delete --ignore-not-found -f deploy/overlays"

@test "deploy creates a kind cluster and deploys the mesh" {
    run make deploy
    [ "$status" -eq 0 ]
    [[ $output == *http://127.0.0.1:8080/* ]]
    [ "${lines[-1]}" = "For kubectl: export KUBECONFIG=$CARGO_TARGET_DIR/deploy/kubeconfig-signaling" ]
    grep -q 'image: signaling-mesh:v1$' "$CARGO_TARGET_DIR/deploy/rendered.yaml"
    diff <(calls) - <<END
docker info
docker build --quiet --output type=tar,dest=/dev/null -
kind get clusters
kind create cluster --name signaling --config @/kind.yaml --kubeconfig @/kubeconfig-signaling
$ON_KIND --namespace kube-system create configmap signaling-mesh-made-this-cluster
docker info
docker image inspect rust:1.95-slim-bookworm
docker build $LABELS --build-arg PROFILE=release --iidfile @/image.digest -f deploy/Dockerfile -t signaling-mesh:v1 .
kind load docker-image signaling-mesh:v1 --name signaling
$ON_KIND --namespace kube-system get configmap signaling-mesh-made-this-cluster --ignore-not-found --output name
$ON_KIND apply -k deploy/metrics-server
$ON_KIND wait --for=condition=Ready nodes --all --timeout=180s
kubectl kustomize @/kind
$ON_KIND apply -f deploy/overlays/kind/namespace.yaml
$ON_KIND --namespace signaling get secret signaling-mesh --ignore-not-found --output name
$ON_KIND --namespace signaling create secret generic signaling-mesh --from-file=
$ON_KIND --namespace signaling get deployment signaling-nodes --ignore-not-found --output jsonpath={.spec.replicas}
$ON_KIND --namespace signaling get deployment signaling-balancers --ignore-not-found --output jsonpath={.spec.replicas}
$ON_KIND apply -f @/rendered.yaml
$ON_KIND --namespace signaling rollout status deployment/signaling-nodes --timeout 300s
$ON_KIND --namespace signaling get deployment signaling-nodes --ignore-not-found --output jsonpath={.status.readyReplicas}
$ON_KIND --namespace signaling rollout status deployment/signaling-balancers --timeout 300s
$ON_KIND --namespace signaling get deployment signaling-balancers --ignore-not-found --output jsonpath={.status.readyReplicas}
$ON_KIND --namespace kube-system get configmap signaling-mesh-made-this-cluster --ignore-not-found --output name
docker port signaling-control-plane 30080/tcp
END
    [ "$(grep -c 'hostPort: 8080$' "$CARGO_TARGET_DIR/deploy/kind.yaml")" -eq 1 ]
}

@test "deploy maps another port of this machine" {
    make deploy PORT=9000
    [ "$(grep -c 'hostPort: 9000$' "$CARGO_TARGET_DIR/deploy/kind.yaml")" -eq 1 ]
}

@test "images takes the toolchain's image that the machine has" {
    says has-rust
    make images
    called "$LABELS --build-arg RUST_IMAGE=rust:1.95-slim-bookworm --build-arg PROFILE=release"
    REGISTRY=registry.test/team make images
    [ "$(calls | grep -c RUST_IMAGE)" -eq 1 ]
}

@test "deploy uses a kind cluster and a Secret that exist" {
    export CLUSTER=mine
    says clusters $'mine-too\nmine'
    says secret-signaling-mesh secret/signaling-mesh
    says keys $'admin-token\nhash-seed\nmesh-secret'
    run make deploy
    [ "$status" -eq 0 ]
    [[ $output == *"port-forward service/signaling 8080:80"* ]]
    called "kind export kubeconfig --name mine --kubeconfig @/kubeconfig-mine"
    not_called create
}

@test "deploy installs metrics only in a cluster of its own" {
    says clusters signaling
    make deploy
    not_called metrics-server
    make undeploy
    says clusters another
    make deploy METRICS=0
    not_called metrics-server
    make deploy
    called "$ON_KIND apply -k deploy/metrics-server"
}

@test "deploy fails for a Secret that lacks a key" {
    says secret-signaling-mesh secret/signaling-mesh
    says keys $'admin-token-of-old\nhash-seed\nmesh-secret'
    fails_with deploy "signaling-mesh has no key admin-token"
    not_called rendered.yaml
}

# .ci/manifests checks that pods read no other keys.
@test "deploy creates a Secret of values with 64 digits" {
    make deploy
    [ "$(awk '$2 != "total" && $1 == 64 { printf "%s ", $2 }' "$ANSWERS/secret")" = "admin-token hash-seed mesh-secret " ]
}

@test "deploy pushes the image for a cluster of the user" {
    own_cluster
    says secret-signaling-tokens secret/signaling-tokens
    make deploy
    called "docker buildx build --platform linux/amd64,linux/arm64 $LABELS --metadata-file @/image.json -f deploy/Dockerfile -t registry.test/team/signaling-mesh:v1 --push ."
    called "kubectl --context prod apply -f deploy/overlays/production/namespace.yaml"
    called "kubectl --context prod --namespace signaling get service signaling"
    [ "$(calls | grep -cvE '^docker |^kubectl (--context prod|kustomize) ')" -eq 0 ]
}

@test "images writes the digest and labels the image" {
    own_cluster
    for registry in registry.test/team ''; do
        REGISTRY=$registry make images
        [ "$(<"$CARGO_TARGET_DIR/deploy/image.digest")" = "$(<"$ANSWERS/digest")  ${registry:+$registry/}signaling-mesh:v1" ]
    done
    version=$(sed -nE 's/^version = "(.*)"/\1/p' Cargo.toml)
    [ "$(grep -cE -- "--build-arg VERSION=$version --build-arg REVISION=$(git rev-parse HEAD)[a-z-]* " "$ANSWERS/calls")" -eq 2 ]
    says digest
    fails_with images "reports no digest"
}

@test "deploy prints what the settings leave open" {
    own_cluster
    says secret-signaling-tokens secret/signaling-tokens
    run make deploy
    [ "$status" -eq 0 ]
    [[ $output == *"Behind an HTTP proxy set SIGNALING_CLIENT_ADDRESS"* && $output != *Open:* ]]
    run make deploy OVERLAY=kind
    [[ $output == *"clients need no token"*"pages of any origin"*"one address may take all sockets"* ]]
}

@test "deploy and load-kind require REGISTRY for a foreign cluster" {
    export CONTEXT=prod
    fails_with deploy REGISTRY=
    fails_with load-kind REGISTRY=
}

@test "deploy fails while Secrets of the user are missing" {
    own_cluster
    export OVERLAY=production-tls
    fails_with deploy "create secret generic signaling-tokens --from-file=keys=FILE"
    says secret-signaling-tokens secret/signaling-tokens
    fails_with deploy "create secret tls signaling-tls --cert=FILE --key=FILE"
    not_called rendered.yaml
    says secret-signaling-tls secret/signaling-tls
    make deploy
    called "kubectl --context prod apply -f @/rendered.yaml"
}

@test "deploy fails while the room journal's password is missing" {
    own_cluster
    export OVERLAY=../../integration-tests/manifests/with-components
    says secret-signaling-tokens secret/signaling-tokens
    says secret-signaling-tls secret/signaling-tls
    fails_with deploy "create secret generic signaling-room-journal --from-file=password=FILE"
    not_called rendered.yaml
    says secret-signaling-room-journal secret/signaling-room-journal
    make deploy
    called "kubectl --context prod apply -f @/rendered.yaml"
}

@test "deploy waits for the minimum of ready pods" {
    says ready $'\n1\n2\n3'
    make deploy
    [ "$(calls | grep -c 'deployment signaling-nodes .*readyReplicas')" -eq 4 ]
    says ready 2
    run --separate-stderr make deploy
    [ "$status" -ne 0 ]
    [ "$output" = "" ]
    [[ $stderr == *"2 of 3 pods of signaling-nodes are ready"* ]]
}

@test "deploy keeps the number of pods of a busy mesh" {
    own_cluster
    says secret-signaling-tokens secret/signaling-tokens
    while read -r nodes balancers expected; do
        says replicas-signaling-nodes "$nodes"
        says replicas-signaling-balancers "$balancers"
        make deploy
        [ "$(grep -oE '^  replicas: [0-9]+' "$CARGO_TARGET_DIR/deploy/rendered.yaml" | tr -dc '0-9\n' | xargs)" = "$expected" ]
    done <<<$'0 0 3 3\n4 10 10 4\n1 4 4 3'
}

@test "deploy names a missing program and changes nothing" {
    DOCKER=absent/docker fails_with deploy "docker is missing: https://"
    KIND=absent/kind fails_with deploy "kind is missing: https://"
    KUBECTL=absent/kubectl fails_with deploy "kubectl is missing: https://"
    [ ! -e "$ANSWERS/calls" ]
    says docker-down
    fails_with deploy "the daemon of docker does not answer"
    [ "$(calls)" = "docker info" ]
    rm "$ANSWERS/docker-down"
    says no-buildkit
    fails_with deploy "apt-get install docker-buildx"
    not_called kind
}

@test "each target names the machines of a stopped cluster" {
    says clusters signaling
    says stopped $'signaling-worker\nsignaling-control-plane'
    for target in deploy load-kind undeploy; do
        fails_with "$target" "docker start signaling-control-plane signaling-worker
To delete the cluster: kind delete cluster --name signaling"
    done
    not_called kubectl
}

@test "manifests rejects a kubectl that is too old" {
    says too-old
    fails_with manifests "must be 1.27 or newer (components, labels), and is Client Version: v1.20.2"
}

@test "manifests prints the image of a registry with a port" {
    own_cluster
    [ "$(REGISTRY=registry.test:5000/team make manifests | grep -c 'image: registry.test:5000/team/signaling-mesh:v1$')" -eq 2 ]
}

@test "no target uses or changes the current context" {
    for clusters in signaling another; do
        for target in deploy load-kind undeploy; do
            says clusters "$clusters"
            run make "$target"
        done
    done
    [ "$(calls | grep '^kubectl ' | grep -vcE "^($ON_KIND|kubectl kustomize) ")" -eq 0 ]
    [ "$(calls | grep -E '^kind (create|export|delete) ' | grep -vc -- '--kubeconfig @/kubeconfig-signaling')" -eq 0 ]
    [ "$(calls | grep -cE '(use|set)-context')" -eq 0 ]
}

@test "undeploy deletes the kind cluster that deploy created" {
    make deploy
    rm -r "$CARGO_TARGET_DIR"
    forget
    make undeploy
    diff <(calls) - <<END
kind get clusters
docker ps --all --filter label=io.x-k8s.kind.cluster=signaling --filter status=exited --format {{.Names}}
kind export kubeconfig --name signaling --kubeconfig @/kubeconfig-signaling
$ON_KIND --namespace kube-system get configmap signaling-mesh-made-this-cluster --ignore-not-found --output name
$DELETES_CLUSTER
END
}

@test "undeploy deletes only the mesh from another cluster" {
    says clusters signaling
    make undeploy
    called "$ON_KIND $DELETES_MESH/kind/namespace.yaml"
    CONTEXT=prod make undeploy
    called "kubectl --context prod $DELETES_MESH/production/namespace.yaml"
    not_called "kind delete"
}

@test "undeploy deletes nothing while kind or the cluster is down" {
    make deploy
    touch "$CARGO_TARGET_DIR/deploy/kubeconfig-signaling"
    says kind-down
    fails_with undeploy "cannot list its clusters"
    rm "$ANSWERS/kind-down"
    says cluster-down
    fails_with undeploy "kind delete cluster --name signaling"
    not_called delete
    [ -e "$CARGO_TARGET_DIR/deploy/kubeconfig-signaling" ]
}

@test "undeploy ignores a cluster of a similar name" {
    says clusters acb
    CLUSTER=a.b make undeploy
    [ "$(calls)" = "kind get clusters" ]
}

@test "load-kind runs mesh-load with the options of LOAD" {
    says clusters signaling
    LOAD="calls --rate 200" make load-kind
    words=$(sed -n '/- args:/,/command:/s/^ *- //p' "$CARGO_TARGET_DIR/deploy/load.yaml" | xargs)
    [ "$words" = "args: calls --rate 200 --url ws://signaling:80" ]
    called "$ON_KIND apply -f @/load.yaml"
    called "$ON_KIND --namespace signaling logs --follow job/mesh-load"
    says job /
    fails_with load-kind "$ON_KIND --namespace signaling describe job mesh-load"
    export CONTEXT=prod REGISTRY=registry.test/team
    fails_with load-kind "kubectl --context prod --namespace signaling describe job mesh-load"
}

@test "load-kind refuses a mesh with tokens or TLS, or none" {
    fails_with load-kind "make deploy creates it"
    own_cluster
    forget
    says variables SIGNALING_TOKEN_KEY_FILE SIGNALING_MAX_SOCKETS
    fails_with load-kind "the mesh in prod requires tokens"
    says variables SIGNALING_ALLOW_ANONYMOUS SIGNALING_TLS_CERT
    fails_with load-kind "the balancers in prod require TLS"
    rm "$ANSWERS/variables"
    fails_with load-kind "no mesh in prod answers"
    not_called apply
}

@test "each uncommitted change gives the image another tag" {
    unset TAG
    mkdir -p "$ANSWERS/checkout/deploy/bin"
    cp deploy/bin/common.sh "$ANSWERS/checkout/deploy/bin/"
    cd "$ANSWERS/checkout"
    tag() { bash -c 'source deploy/bin/common.sh && tag'; }
    git init -q && echo ignored >.gitignore && git add .
    git -c user.name=a -c user.email=a@example.com -c commit.gpgsign=false commit -qm first
    committed=$(git rev-parse --short=12 HEAD)
    echo ignored >ignored
    [ "$(tag)" = "$committed" ]
    tags=$committed
    for change in "touch new" "echo one >new" "echo two >new" "mv new renamed" "echo more >>.gitignore"; do
        eval "$change"
        tags+=$'\n'$(tag)
    done
    [ "$(sort -u <<<"$tags" | wc -l)" -eq 6 ]
    rm renamed && git checkout -q .gitignore
    [ "$(tag)" = "$committed" ]
}

@test "image requires TAG outside git" {
    unset TAG
    mkdir -p "$ANSWERS/unpacked/deploy/bin"
    cp deploy/bin/common.sh "$ANSWERS/unpacked/deploy/bin/"
    export GIT_CEILING_DIRECTORIES=$ANSWERS
    run bash -c 'source "$ANSWERS/unpacked/deploy/bin/common.sh" && image'
    [ "$status" -ne 0 ]
    [[ $output == *"set TAG="* ]]
    run bash -c 'TAG=v1 && source "$ANSWERS/unpacked/deploy/bin/common.sh" && image'
    [ "$output" = signaling-mesh:v1 ]
}
