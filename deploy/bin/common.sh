# What the scripts beside this share. They are started by the Makefile, which exports the variables that `make help` lists.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

: "${CLUSTER:=signaling}" "${CONTEXT:=}" "${REGISTRY:=}" "${DOCKER:=docker}" "${KIND:=kind}" "${KUBECTL:=kubectl}"
: "${OVERLAY:=$([[ -n $CONTEXT ]] && echo production || echo kind)}"
readonly NAMESPACE=signaling
readonly WORK=${CARGO_TARGET_DIR:-$PWD/target}/deploy
# The kind cluster's own: the user's kubeconfig, and the context chosen there, are left alone.
readonly KUBECONFIG_OF_KIND=$WORK/kubeconfig-$CLUSTER
# A ConfigMap in kube-system of a kind cluster: `make deploy` has created that cluster, and so `make undeploy` may delete it.
readonly MARK=signaling-mesh-made-this-cluster
mkdir -p "$WORK"

say() {
    printf '%s\n' "$*" >&2
}

fail() {
    say "$@"
    exit 1
}

# Fails with the way to get what is missing.
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

need_docker_daemon() {
    "$DOCKER" info >/dev/null 2>&1 ||
        fail "$DOCKER is there, but its daemon does not answer: start it (systemctl start docker), or add yourself to the group docker"
}

# Everything of this checkout that an image is made of and no commit has: changes, and files that git does not know yet.
uncommitted() {
    local file here=(. ':!deploy/overlays')
    git diff HEAD -- "${here[@]}"
    git ls-files --others --exclude-standard -z -- "${here[@]}" | while IFS= read -r -d '' file; do
        printf '%s\n' "$file"
        [[ ! -f $file ]] || cat -- "$file"
    done
}

# What is deployed: the commit, and a mark of its own for each change that is not committed.
tag() {
    local changes='' commit
    if [[ -n ${TAG:-} ]]; then
        echo "$TAG"
        return
    fi
    commit=$(git rev-parse --short=12 HEAD) ||
        fail "there is no commit to name the image after (these files are not in git): set TAG=..."
    [[ -z $(uncommitted | tr -d '\0') ]] || changes=$(uncommitted | sha1sum | cut -c1-8)
    echo "$commit${changes:+-$changes}"
}

image() {
    local tag
    tag=$(tag) || exit 1
    echo "${REGISTRY:+$REGISTRY/}signaling-mesh:$tag"
}

# How the user would call kubectl, for hints.
kubectl_by_hand() {
    if [[ -n $CONTEXT ]]; then
        echo "$KUBECTL --context $CONTEXT --namespace $NAMESPACE"
    else
        echo "$KUBECTL --kubeconfig $KUBECONFIG_OF_KIND --context kind-$CLUSTER --namespace $NAMESPACE"
    fi
}

# Every call names its cluster.
on_cluster() {
    if [[ -n $CONTEXT ]]; then
        "$KUBECTL" --context "$CONTEXT" "$@"
    else
        "$KUBECTL" --kubeconfig "$KUBECONFIG_OF_KIND" --context "kind-$CLUSTER" "$@"
    fi
}

# Whether there is the kind cluster. Stops where kind cannot say.
kind_cluster_exists() {
    local clusters
    clusters=$("$KIND" get clusters) || fail "$KIND cannot say which clusters there are (see above), so nothing is done: does docker run?"
    grep -qxF -- "$CLUSTER" <<<"$clusters"
}

# Whether `make deploy` has created the kind cluster of our kubeconfig. Stops where the cluster does not say.
kind_cluster_is_ours() {
    local mark
    mark=$(on_cluster --namespace kube-system get configmap "$MARK" --ignore-not-found --output name) ||
        fail "the kind cluster $CLUSTER does not say whether make deploy has created it; if it is to go: $KIND delete cluster --name $CLUSTER"
    [[ -n $mark ]]
}

# Renders a folder of deploy/ with the image of this commit, and whatever else is added to the kustomization on standard input.
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
