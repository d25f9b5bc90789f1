#!/usr/bin/env bash
# Builds the release of a tag: an archive, a Debian package, and their checksums.
#
# The same tag gives the same bytes: times are those of the commit, archives are sorted and belong to root, and paths of the
# building machine are mapped away. That holds for one compiler, one C++ compiler and one libc; the archive's BUILD file names
# them. Signing is left to whoever releases.
#
# usage: release.sh TAG [DIRECTORY]      DIRECTORY gets the files (target/release-TAG)
#
# With PROGRAMS=DIR nothing is built: orch and scheduler are taken from DIR, for tests of the packing.
set -euo pipefail
export LC_ALL=C TZ=UTC
umask 022

fail() { echo "release.sh: $*" >&2; exit 1; }

# Builds the programs from the sources in $1.
build() {
    local sources=$1 registry="${CARGO_HOME:-$HOME/.cargo}"
    # Flags of the environment would take the place of those below, or change the bytes: profiles, a library that is there.
    unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS ROCKSDB_LIB_DIR ROCKSDB_STATIC "${!CARGO_PROFILE_@}"
    export CARGO_TARGET_DIR="$sources/target"
    export ORCH_GIT_COMMIT="$commit" ORCH_GIT_TREE_STATE=clean
    ORCH_BUILD_DATE=$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
    export ORCH_BUILD_DATE
    export CFLAGS="-ffile-prefix-map=$sources=/orch -ffile-prefix-map=$registry=/cargo"
    export CXXFLAGS="$CFLAGS"
    (cd "$sources" && .ci/setup && .ci/cargo build --profile dist --locked --bin orch --bin scheduler --config \
        "target.'cfg(all())'.rustflags = ['--remap-path-prefix=$sources=/orch', '--remap-path-prefix=$registry=/cargo']")
}

# The tree that the archive and the package share, in $2: programs of $1, texts of the tag's sources in $3.
stage() {
    local programs=$1 tree=$2 sources=$3 shell
    mkdir -p "$tree"/usr/{bin,lib/orch,lib/systemd/system,share/man/man1,share/doc/orch} \
        "$tree"/usr/share/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
    install -m 0755 "$programs/orch" "$programs/scheduler" "$tree/usr/lib/orch/"
    ln -s ../lib/orch/orch "$tree/usr/bin/orch"
    ln -s ../lib/orch/scheduler "$tree/usr/bin/orch-scheduler"
    for shell in bash:bash-completion/completions/orch zsh:zsh/vendor-completions/_orch \
        fish:fish/vendor_completions.d/orch.fish; do
        "$programs/orch" completions "${shell%%:*}" > "$tree/usr/share/${shell#*:}"
    done
    "$programs/orch" man "$tree/usr/share/man/man1"
    "$programs/scheduler" --help | scheduler_page > "$tree/usr/share/man/man1/orch-scheduler.1"
    # `orch man` makes its files for their owner alone.
    find "$tree/usr/share/man" -type f -exec chmod 0644 {} +
    find "$tree/usr/share/man" -type f -exec gzip -9n {} +
    install -m 0644 "$sources"/deploy/systemd/*.service "$tree/usr/lib/systemd/system/"
    install -m 0644 "$sources/CHANGELOG.md" "$sources/README.md" "$sources/LICENSE" "$sources"/docs/guides/*.md \
        "$sources/docs/operations.md" "$tree/usr/share/doc/orch/"
    versions > "$tree/usr/share/doc/orch/BUILD"
}

# The scheduler's help as a manual page: its flags have the names of the reference, and no page of their own.
scheduler_page() {
    printf '.TH orch-scheduler 1\n.SH NAME\norch-scheduler \\- assigns pods to nodes\n.SH DESCRIPTION\n.nf\n'
    sed -e 's/\\/\\e/g' -e "s/^\([.']\)/\\\\\&\1/" -e 's/-/\\-/g'
    printf '.fi\n'
}

# The tools that the bytes depend on, beside the tag.
versions() {
    printf 'commit %s\n' "$commit"
    rustc --version
    c++ --version | head -n 1
    printf 'libc %s\n' "$libc"
}

# Packs directory $2 as archive $1, whose members begin with $3.
pack() {
    # Links keep their targets: `S` is for the names of members alone.
    tar --create --format=gnu --directory="$2" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 \
        --numeric-owner --transform="flags=rSh;s,^\.,$3," . | gzip -9n > "$1"
}

package() {
    local tree=$1 sources=$2 out=$3 size
    mkdir -p "$tree/DEBIAN"
    # Of files alone: directories differ in size from one file system to another.
    size=$(find "$tree/usr" -type f -printf '%s\n' | awk '{sum += int(($1 + 1023) / 1024)} END {print sum}')
    sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@LIBC@/$libc/" -e "s/@SIZE@/$size/" \
        "$sources/deploy/package/control" > "$tree/DEBIAN/control"
    install -m 0755 "$sources/deploy/package/postinst" "$tree/DEBIAN/postinst"
    find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    # dpkg-deb takes times that lie after SOURCE_DATE_EPOCH back to it, and owners from the flag.
    # A single thread: otherwise the cut of the compressed stream follows the number of processors.
    dpkg-deb --root-owner-group --threads-max=1 -Zxz --build "$tree" "$out" > /dev/null
}

main() {
    local tag=$1 out=$2 name
    command -v dpkg-deb > /dev/null || fail "dpkg-deb is missing: apt-get install dpkg"
    commit=$(git rev-parse --verify --quiet "refs/tags/$tag^{commit}") || fail "there is no tag $tag"
    version=${tag#v}
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit")
    export SOURCE_DATE_EPOCH
    architecture=$(dpkg --print-architecture)
    # The programs run on the libc that they were linked with, and later ones.
    libc=$(dpkg-query --show --showformat='${source:Upstream-Version}' libc6)
    mkdir -p "$out"
    out=$(cd "$out" && pwd)
    # The same path each time, where the temporary directory is the same. Global: it is removed when the script ends.
    work=${TMPDIR:-/tmp}/orch-release-$tag
    mkdir "$work" 2> /dev/null || fail "another release is under way, or was killed: remove $work"
    trap 'rm -rf "$work"' EXIT
    # The tag's files, whatever the working copy has.
    mkdir "$work/sources"
    git archive "$commit" | tar --extract --directory="$work/sources"
    local programs=${PROGRAMS:-$work/sources/target/dist}
    [ -n "${PROGRAMS:-}" ] || build "$work/sources"
    case $("$programs/orch" version) in
        "orch $version"*) ;;
        *) fail "tag $tag, but the program says $("$programs/orch" version): set the version in Cargo.toml before the tag" ;;
    esac
    stage "$programs" "$work/tree" "$work/sources"
    name="orch-$version-linux-$architecture"
    pack "$out/$name.tar.gz" "$work/tree/usr" "$name"
    package "$work/tree" "$work/sources" "$out/orch_${version}_$architecture.deb"
    (cd "$out" && sha256sum "$name.tar.gz" "orch_${version}_$architecture.deb" > SHA256SUMS && cat SHA256SUMS)
}

[ $# -ge 1 ] && [ -n "$1" ] || fail "usage: $0 TAG [DIRECTORY]"
cd "$(dirname "$0")/.."
main "$1" "${2:-target/release-$1}"
