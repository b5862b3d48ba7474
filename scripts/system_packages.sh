#!/usr/bin/env bash
# Installs the Debian packages of a table (command or file, package, reason) whose command or file is missing. Needs root; without it,
# or without apt, it names what is missing and succeeds: the tests that need it skip with the reason.
set -euo pipefail
table=${1:?usage: system_packages.sh TABLE}
missing=()
while IFS=$'\t' read -r command package reason; do
    [[ -z "$command" || "$command" == \#* ]] && continue
    [[ "$command" == /* && -e "$command" ]] && continue
    command -v "$command" >/dev/null 2>&1 && continue
    missing+=("$package")
    echo "missing: $command (package $package), needed by $reason" >&2
done <"$table"
[[ ${#missing[@]} -eq 0 ]] && exit 0
if [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null 2>&1; then
    echo "not installed (needs root and apt): ${missing[*]}" >&2
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
