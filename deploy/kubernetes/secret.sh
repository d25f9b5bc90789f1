#!/usr/bin/env bash
# Prints the Secret that deploy/kubernetes/orch.yaml and the chart read their certificates from, of a directory made by
# `orch certs init`. The authorities' keys are left out: keep the directory where it is. Where a file is missing, empty or
# unreadable it prints nothing and fails.
#
#     orch certs init --dir certs --member orch-0=orch-0.orch-peers,orch --member orch-1=orch-1.orch-peers,orch \
#         --member orch-2=orch-2.orch-peers,orch
#     deploy/kubernetes/secret.sh certs | kubectl --namespace orch apply --server-side -f -
#
# Applied by the server: otherwise kubectl keeps a copy of all that it sends, private keys included, in an annotation.
# The same again after `orch certs renew --dir certs` gives the members the new ones: they read them by themselves.
#
# usage: secret.sh DIR [NAME]      NAME of the Secret, orch-certs
set -euo pipefail

fail() { echo "secret.sh: $*" >&2; exit 1; }

# Adds file $2 to the text under key $1.
entry() {
    local content
    [ -s "$2" ] || fail "$2 is missing or empty: is $directory made by \`orch certs init\`?"
    content=$(base64 --wrap=0 < "$2") || fail "cannot read $2"
    text+=$(printf '\n  %s: %s' "$1" "$content")
}

main() {
    local directory=$1 secret=$2 file member text
    text=$(printf 'apiVersion: v1\nkind: Secret\nmetadata:\n  name: %s\ntype: Opaque\ndata:' "$secret")
    for file in ca.crt peer-ca.crt service-account.key service-account.pub admin.conf scheduler.conf; do
        entry "$file" "$directory/$file"
    done
    for member in "$directory"/members/*/; do
        # Without a member the pattern stands for itself.
        [ -d "$member" ] || fail "$directory/members has no member's directory: name the directory of \`orch certs init\`"
        for file in server.crt server.key peer.crt peer.key; do
            entry "$(basename "$member").$file" "$member$file"
        done
    done
    # Last, so that a part of a Secret is never applied.
    printf '%s\n' "$text"
}

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: $0 DIR [NAME]" >&2
    exit 2
fi
main "$1" "${2:-orch-certs}"
