#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# docs/operations.md says what is so: settings exist and take the values shown, commands and their
# options exist. Usage: operations.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
export LC_ALL=C
build=${1:?} source=${2:?}
tool=$build/tools/anynet
page=$source/docs/operations.md
bad=0

fail() {
	echo "FAIL: $*"
	bad=1
}

known=$("$tool" config --json | jq -r '.[].name')
for name in $(grep -oE 'ANYNET_[A-Z0-9_]+' "$page" | sort -u); do
	grep -qxF "$name" <<<"$known" || fail "$name is no setting"
done
for pair in $(grep -oE 'ANYNET_[A-Z0-9_]+=[^` ,;)]+' "$page" | sort -u) \
	$(sed -nE 's/.*name: (ANYNET_[A-Z_]+), value: ([^ ]+) .*/\1=\2/p' "$page"); do
	said=$(env -i "$pair" "$tool" config 2>&1 >/dev/null)
	[[ $said == *ANYNET_SECRET_FILE*cannot\ be\ opened* || -z $said ]] || fail "$pair: $said"
done
grep -oE 'anynet [a-z]+( --[a-z]+)+' "$page" | sort -u |
	while read -r _ command options; do
		for option in $options; do
			"$tool" "$command" --usage | grep -E -- "\[${option}[]=]" >/dev/null || echo "anynet $command has no $option"
		done
	done | grep . && bad=1
for command in $(grep -oE '`anynet [a-z]+' "$page" | awk '{ print $2 }' | sort -u); do
	"$tool" help | grep "^  $command " >/dev/null || fail "anynet $command is no command"
done
[ "$bad" = 0 ] && echo "operations: as it should be"
exit "$bad"
