# shellcheck shell=sh disable=SC2034 # for the script that sources it
# Sets the compiler settings of an architecture. Source it with ARCH set to amd64 or arm64.
case $ARCH in
amd64) RUST_TARGET=x86_64-unknown-linux-gnu GNU=x86_64-linux-gnu CROSS_PACKAGES='gcc-x86-64-linux-gnu libc6-dev-amd64-cross' ;;
arm64) RUST_TARGET=aarch64-unknown-linux-gnu GNU=aarch64-linux-gnu CROSS_PACKAGES='gcc-aarch64-linux-gnu libc6-dev-arm64-cross' ;;
*)
    echo "there is no image for the architecture $ARCH: it is amd64 or arm64" >&2
    exit 1
    ;;
esac
case $(uname -m)-$ARCH in
x86_64-amd64 | aarch64-arm64) LINKER=cc IS_CROSS=false ;;
*) LINKER=$GNU-gcc IS_CROSS=true ;;
esac
