#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the parts of the tests (tests/check.sh) one after the other, goes on when one is red, and ends with what was
# left out and the summary of each.
#
# Usage: tests/check_all.sh [--minutes N [--speed PERCENT]] PART...
#
# --minutes N: a part that is not expected to end within N minutes is left out.
# --speed PERCENT: of this machine, compared with the one that the expectations are of (100).
set -euo pipefail
cd "$(dirname "$0")/.."

limit=''
if [ "${1:-}" = --minutes ]; then
	limit=$2
	shift 2
fi
speed=100
if [ "${1:-}" = --speed ]; then
	speed=$2
	shift 2
fi
[ $# -gt 0 ] || { sed -n '/^# Usage/,/^[^#]/s/^# \?//p' "$0" >&2; exit 2; }

# Duration of a part on 2 cores, in minutes, builds included.
declare -A takes=([quick]=6 [rest]=15 [kinds]=6 [tsan]=16 [fuzz]=8 [clang]=2 [lint]=4 [coverage]=12 [guest]=6 [aarch64]=11 [nccl]=6 [mutations]=35)

red=0
left_out=''
summaries=build/check/summaries
mkdir -p build/check
: >$summaries
for part in "$@"; do
	if [ -n "$limit" ] && [ $((SECONDS + 60 * 100 * ${takes[$part]:-0} / speed)) -gt $((60 * limit)) ]; then
		left_out+=" $part"
		continue
	fi
	start=$SECONDS
	log=build/check/$part.log
	echo "== $part"
	tests/check.sh "$part" 2>&1 | tee "$log" || red=1
	{
		echo "== $part, $((SECONDS - start)) s"
		sed -n '/^[0-9]*% tests passed/,$p; /^[0-9]* passed, [0-9]* failed/p; /^check: not allowed/p' "$log"
	} >>$summaries
done
echo
echo "left out for lack of time:${left_out:- nothing}"
cat $summaries
exit $red
