# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Checks of what a program prints, for shell tests that source this file. $out is their directory, and $out/said the
# output.

fail() {
	echo "FAIL: $*"
	for file in "${out:?}"/*; do
		if [ -f "$file" ] && grep -qI . "$file"; then # text
			tail -v -c 8000 "$file"
		fi
	done
	exit 1
}

skip() {
	echo "SKIP $*"
	exit 77
}

# expect STATUS TEXT COMMAND...: the status, and a text somewhere in the output
expect() {
	local status=$1 text=$2 got
	shift 2
	"$@" >"$out/said" 2>&1
	got=$?
	[ "$got" = "$status" ] || fail "status $got instead of $status: $*"
	grep -qF -- "$text" "$out/said" || fail "no '$text' in the output of: $*"
}

# said PATTERN, not_said PATTERN
said() {
	grep -qE -- "$1" "$out/said" || fail "it did not say: $1"
}

not_said() {
	grep -qE -- "$1" "$out/said" && fail "it said: $1"
	return 0
}
