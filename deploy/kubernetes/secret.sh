#!/usr/bin/env bash
# Prints the Secret that deploy/kubernetes/orch.yaml and the chart read their certificates from, of a directory made by
# `orch certs init`. The authorities' keys are left out: keep the directory where it is.
#
#     orch certs init --dir certs --member orch-0=orch-0.orch-peers,orch --member orch-1=orch-1.orch-peers,orch \
#         --member orch-2=orch-2.orch-peers,orch
#     deploy/kubernetes/secret.sh certs | kubectl --namespace orch apply -f -
#
# The same again after `orch certs renew --dir certs` gives the members the new ones: they read them by themselves.
#
# usage: secret.sh DIR [NAME]      NAME of the Secret, orch-certs
set -euo pipefail

entry() { printf '  %s: %s\n' "$1" "$(base64 --wrap=0 < "$2")"; }

main() {
    local directory=$1 secret=$2 file member
    printf 'apiVersion: v1\nkind: Secret\nmetadata:\n  name: %s\ntype: Opaque\ndata:\n' "$secret"
    for file in ca.crt peer-ca.crt service-account.key service-account.pub admin.conf scheduler.conf; do
        entry "$file" "$directory/$file"
    done
    for member in "$directory"/members/*/; do
        for file in server.crt server.key peer.crt peer.key; do
            entry "$(basename "$member").$file" "$member$file"
        done
    done
}

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: $0 DIR [NAME]" >&2
    exit 2
fi
main "$1" "${2:-orch-certs}"
