#!/usr/bin/env bash
# Makes the root of the container image in a directory: the two programs, the libraries that they load, the names of their
# user, the order of name resolution, the authorities of the building machine, and empty directories for data. It has no
# shell and no package manager. The Containerfile runs it, and so does a test, which starts the programs in that root.
#
# usage: root.sh PROGRAMS ROOT      PROGRAMS has orch and scheduler, ROOT is made
set -euo pipefail

# The user of the image: the number that images without a shell commonly use.
readonly USER_ID=65532

libraries() {
    # Lines are "NAME => PATH (ADDRESS)", and "PATH (ADDRESS)" for the loader.
    ldd "$1" | sed -n 's/^\t\([^ ]* => \)\{0,1\}\(\/[^ ]*\) (.*/\2/p'
}

main() {
    local programs=$1 root=$2 program library directory
    mkdir -p "$root"/{usr/bin,usr/lib/orch,etc/orch,etc/ssl/certs,tmp}
    for program in orch scheduler; do
        cp "$programs/$program" "$root/usr/lib/orch/$program"
        chmod 0755 "$root/usr/lib/orch/$program"
        for library in $(libraries "$programs/$program"); do
            mkdir -p "$root$(dirname "$library")"
            cp -L "$library" "$root$library"
        done
    done
    ln -sf ../lib/orch/orch "$root/usr/bin/orch"
    ln -sf ../lib/orch/scheduler "$root/usr/bin/orch-scheduler"
    printf 'orch:x:%s:%s::/var/lib/orch:/nonexistent\n' "$USER_ID" "$USER_ID" > "$root/etc/passwd"
    printf 'orch:x:%s:\n' "$USER_ID" > "$root/etc/group"
    printf 'hosts: files dns\n' > "$root/etc/nsswitch.conf"
    # Authorities of webhooks and issuers, where the building machine has them.
    if [ -r /etc/ssl/certs/ca-certificates.crt ]; then
        cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    fi
    # A new volume takes owner and mode of the directory that it is mounted on.
    for directory in etc/orch/certs var/lib/orch var/lib/orch-scheduler; do
        mkdir -p "$root/$directory"
        chmod 0700 "$root/$directory"
        if [ "$(id -u)" = 0 ]; then
            chown "$USER_ID:$USER_ID" "$root/$directory"
        fi
    done
}

if [ $# != 2 ]; then
    echo "usage: $0 PROGRAMS ROOT" >&2
    exit 2
fi
main "$@"
