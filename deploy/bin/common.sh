# Functions of the scripts in this folder. The Makefile runs them, and exports the variables that
# `make help` lists.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

: "${CLUSTER:=signaling}" "${CONTEXT:=}" "${REGISTRY:=}" "${DOCKER:=docker}" "${KIND:=kind}" "${KUBECTL:=kubectl}" "${PORT:=8080}"
: "${OVERLAY:=$([[ -n $CONTEXT ]] && echo production || echo kind)}"
readonly NAMESPACE=signaling
readonly WORK=${CARGO_TARGET_DIR:-$PWD/target}/deploy
# A separate file, so that the user's kubeconfig and its current context stay unchanged.
readonly KUBECONFIG_OF_KIND=$WORK/kubeconfig-$CLUSTER
# Name of a ConfigMap in kube-system. `make deploy` creates it in a kind cluster that it created.
# `make undeploy` deletes only a cluster with this ConfigMap.
readonly MARK=signaling-mesh-made-this-cluster
mkdir -p "$WORK"

say() {
    printf '%s\n' "$*" >&2
}

fail() {
    say "$@"
    exit 1
}

# Exits with installation hints if a program is missing.
need() {
    local program hint missing=0
    for program in "$@"; do
        command -v "$program" >/dev/null && continue
        case ${program##*/} in
        docker) hint='https://docs.docker.com/engine/install/ (on Debian: apt-get install docker.io docker-buildx)' ;;
        kind) hint='https://kind.sigs.k8s.io/docs/user/quick-start/#installation (from Debian 13 on: apt-get install kind)' ;;
        kubectl) hint='https://kubernetes.io/docs/tasks/tools/ (from Debian 13 on: apt-get install kubectl)' ;;
        *) hint='see deploy/README.md' ;;
        esac
        say "$program is missing: $hint"
        missing=1
    done
    ((missing == 0)) || exit 1
}

# Exits if docker cannot build the image. Docker 23 and later need a plugin for it, earlier ones
# have BuildKit built in. A build without it refuses --output.
need_buildkit() {
    DOCKER_BUILDKIT=1 "$DOCKER" build --quiet --output type=tar,dest=/dev/null - \
        <<<$'FROM scratch\nLABEL is=empty' >/dev/null 2>&1 ||
        fail "$DOCKER has no BuildKit, which builds the image: install its plugin buildx (on Debian: apt-get install docker-buildx)"
}

need_docker_daemon() {
    "$DOCKER" info >/dev/null 2>&1 ||
        fail "the daemon of $DOCKER does not answer: start it (systemctl start docker), or join the group docker"
}

# Prints the architecture of this machine as images and packages name it.
architecture() {
    case $(uname -m) in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) fail "there are no static programs for $(uname -m): set ARCH=amd64 or ARCH=arm64" ;;
    esac
}

# Prints all uncommitted changes of the image's sources, with the content of untracked files.
uncommitted() {
    local file here=(. ':!deploy/overlays')
    git diff HEAD -- "${here[@]}"
    git ls-files --others --exclude-standard -z -- "${here[@]}" | while IFS= read -r -d '' file; do
        printf '%s\n' "$file"
        [[ ! -f $file ]] || cat -- "$file"
    done
}

# Prints the tag of the image: TAG, or the commit and a hash of uncommitted changes.
tag() {
    local changes='' commit
    if [[ -n ${TAG:-} ]]; then
        echo "$TAG"
        return
    fi
    commit=$(git rev-parse --short=12 HEAD) ||
        fail "the image's tag needs a git commit, and these files are not in git: set TAG=..."
    [[ -z $(uncommitted | tr -d '\0') ]] || changes=$(uncommitted | sha1sum | cut -c1-8)
    echo "$commit${changes:+-$changes}"
}

# Prints the release of this tree.
version() {
    sed -nE 's/^version = "(.*)"/\1/p' Cargo.toml
}

# Prints the commit of this tree, marked if it has uncommitted changes, or nothing outside git.
revision() {
    local commit
    commit=$(git rev-parse HEAD 2>/dev/null) || return 0
    echo "$commit$([[ -z $(uncommitted | tr -d '\0') ]] || echo -changed)"
}

# Prints the URL of the sources: SOURCE, or the repository from which this one was cloned. Prints
# nothing for a path, or for a URL with a user.
source_url() {
    echo "${SOURCE:-$(git remote get-url origin 2>/dev/null | grep -E '^https://[^@]+$')}"
}

image() {
    local tag
    tag=$(tag) || exit 1
    echo "${REGISTRY:+$REGISTRY/}signaling-mesh:$tag"
}

# Prints the kubectl command for the cluster, for hints to the user.
kubectl_by_hand() {
    if [[ -n $CONTEXT ]]; then
        echo "$KUBECTL --context $CONTEXT --namespace $NAMESPACE"
    else
        echo "$KUBECTL --kubeconfig $KUBECONFIG_OF_KIND --context kind-$CLUSTER --namespace $NAMESPACE"
    fi
}

# Runs kubectl on the cluster. Names the context, so that the current context has no effect.
on_cluster() {
    if [[ -n $CONTEXT ]]; then
        "$KUBECTL" --context "$CONTEXT" "$@"
    else
        "$KUBECTL" --kubeconfig "$KUBECONFIG_OF_KIND" --context "kind-$CLUSTER" "$@"
    fi
}

# Succeeds if the kind cluster exists. Exits if kind reports an error, or if a machine of the
# cluster is stopped, as after a reboot.
kind_cluster_exists() {
    local clusters machines
    clusters=$("$KIND" get clusters) || fail "$KIND cannot list its clusters (see above): check that docker runs"
    grep -qxF -- "$CLUSTER" <<<"$clusters" || return 1
    machines=$("$DOCKER" ps --all --filter "label=io.x-k8s.kind.cluster=$CLUSTER" --filter status=exited \
        --format '{{.Names}}' | sort | tr '\n' ' ')
    [[ -z $machines ]] || fail "machines of the kind cluster $CLUSTER are stopped. To start them: $DOCKER start ${machines% }
To delete the cluster: $KIND delete cluster --name $CLUSTER"
}

# Succeeds if `make deploy` created the kind cluster. Exits if the cluster does not answer.
kind_cluster_is_ours() {
    local mark
    mark=$(on_cluster --namespace kube-system get configmap "$MARK" --ignore-not-found --output name) ||
        fail "the kind cluster $CLUSTER does not report whether make deploy created it; to delete it: $KIND delete cluster --name $CLUSTER"
    [[ -n $mark ]]
}

# Prints the manifests of a folder of deploy/ with the image of this commit. Appends standard input
# to the kustomization.
render() {
    local folder=$1 into name
    into=$WORK/$(basename "$folder")
    name=$(image) || exit 1
    mkdir -p "$into"
    {
        printf 'apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n  - %s\n' \
            "$(realpath --relative-to="$into" "deploy/$folder")"
        printf 'images:\n  - name: signaling-mesh\n    newName: %s\n    newTag: %s\n' "${name%:*}" "${name##*:}"
        cat
    } >"$into/kustomization.yaml"
    "$KUBECTL" kustomize "$into" ||
        fail "$KUBECTL cannot render the manifests: it must be 1.27 or newer (components, labels), and is $("$KUBECTL" version --client | tr '\n' ' ')"
}
