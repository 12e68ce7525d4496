#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every external function that the plugin calls has a stand-in in the simulator, or is listed in pure.txt as one that
# needs none. Red if the product calls a new one.
#
# Usage: calls.sh NM SIMULATE PLUGIN
set -euo pipefail
export LC_ALL=C

wanted=$("$1" -D --undefined-only "$3" | awk '{ sub(/@.*/, "", $2); print $2 }' | sort -u)
offered=$("$1" -D --defined-only "$2" | awk '{ print $3 }' | sort -u)
pure=$(grep -v '^#' "$(dirname "$0")/pure.txt" | tr ' ' '\n' | sort -u)
missing=$(comm -23 <(echo "$wanted") <(printf '%s\n' "$offered" "$pure" | sort -u))
[ -n "$wanted" ] || { echo "nothing is known of $3" >&2; exit 1; }
if [ -n "$missing" ]; then
	echo "without a stand-in:" $missing >&2
	exit 1
fi
