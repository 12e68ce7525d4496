#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Upper bounds for the cost of 4,000 connections between two network namespaces (docs/scale.md), compared with one: 64
# KiB and one descriptor each, and no additional thread: only the caller's, the background one, and the one that writes
# statistics. Usage: scale.sh BUILD_DIR SOURCE_DIR. Exit 77 = skipped.
set -uo pipefail
# shellcheck source=tests/said.sh
. "$(dirname "$0")/../said.sh"

build=${1:?} source=${2:?}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
[ "$(id -u)" = 0 ] && unshare --net true 2>/dev/null || skip "needs root and network namespaces"
[ "$(ulimit -Hn)" -ge 4500 ] || skip "no more than $(ulimit -Hn) descriptors for a process"
unset NCCL_NET NCCL_DEBUG

expect 0 "open_ms" "$source/bench/scale.sh" "$build" 1,4000 1
awk '
	/^# comms/ { for (i = 4; i <= NF; i++) name[i - 1] = $i }
	$2 != "|" || $1 + 0 == 0 { next }
	{ for (i = 3; i <= NF; i++) value[$1, name[i]] = $i }
	# bound(WHAT, IS, MOST)
	function bound(what, is, most) {
		if (is + 0 > 0 && is <= most)
			return
		printf "%s: %s exceeds the limit of %s\n", what, is, most
		bad = 1
	}
	END {
		bound("KiB for each", value[4000, "KiB/comm"], 64)
		bound("descriptors for each", value[4000, "fds/comm"], 1.01)
		bound("threads", value[4000, "threads"], 4) # two of them are those of the measuring program
		exit bad
	}' "$out/said" >"$out/bounds" || fail "it costs too much"
grep '^ *4000 |' "$out/said"
