#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `anynet explain` on the command line: explain.sh CASE BUILD_DIR.
set -uo pipefail
# shellcheck source=tests/said.sh
. "$(dirname "$0")/../../said.sh"

case=${1:?} build=${2:?}
tool=$build/tools/anynet
here=$(dirname "$(realpath "$0")")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

oom='[rank3]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.'
late='[rank1]:[E305 10:30:00.1 ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught collective operation timeout: x'
plugin='n1:1:2 [0] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so)'

case $case in
verdicts)
	printf 'epoch 1\nepoch 2\n' >"$out/clean"
	printf '%s\n' "$plugin" >"$out/harmless"
	printf 'NCCL WARN Something new\n' >"$out/warning"
	printf '%s\n%s\n%s\n' "$plugin" "$late" "$oom" >"$out/error"
	: >"$out/empty"
	expect 0 "no known problem" "$tool" explain "$out/clean"
	expect 0 "0 lines" "$tool" explain "$out/empty"
	expect 0 "harmless" "$tool" explain "$out/harmless"
	expect 1 "1 warning," "$tool" explain "$out/warning"
	expect 2 "error:3, rank 3" "$tool" explain "$out/error"
	expect 2 "- a collective timed out" "$tool" explain "$out/error"
	expect 2 "3 files" "$tool" explain "$out/clean" "$out/error" "$out/empty"
	expect 2 "(stdin):3" "$tool" explain <"$out/error"
	expect 2 "(stdin):3" "$tool" explain - <"$out/error"
	expect 0 "cuda-out-of-memory (error, 10)" "$tool" explain --list
	# Not a terminal: no colours, and no line is wider than the default.
	"$tool" explain "$out/error" | grep $'\033' >/dev/null && fail "colours in a pipe"
	"$tool" explain "$out/error" | grep -E '^ +(why|fix) ' | grep -E '.{101}' >/dev/null && fail "wide"
	;;
json)
	printf '%s\n%s\n\xff\xfe%s\n' "$plugin" "$late" "$oom" >"$out/$(printf 'a\033[1mb')"
	for wanted in '"status": 2' '"id": "cuda-out-of-memory"' '"line": 3' '"rank": 3' \
		'"message": "??[rank3]: torch' '"id": "plugin-not-found"' '"kind": "follows"' \
		'/a?[1mb"' '"lines": 3'; do
		expect 2 "$wanted" "$tool" explain --json "$out"/a*
	done
	expect 0 '"findings": []' "$tool" explain --json </dev/null
	;;
rules)
	cat >"$out/mine" <<-'END'
		[my-storage]
		kind     error
		cause    1
		title    the storage is gone
		line     stale file handle on {path}
		why      {path} was
		         unmounted.
		fix      mount {path}
		sample   OSError: stale file handle on /data
	END
	printf '%s\nOSError: stale file handle on /data/x\n' "$oom" >"$out/log"
	expect 2 "why    /data/x was unmounted." "$tool" explain --rules "$out/mine" "$out/log"
	[ "$(grep -m1 '^ERROR' "$out/said")" = "ERROR  the storage is gone  [my-storage]" ] ||
		fail "its own rule is not the first cause"
	# A rule that finds the rank of a process, but not the number of ranks.
	cat >>"$out/mine" <<-'END'
		[my-rank]
		kind     who
		line     this process has number {rank:\d+}
		sample   this process has number 3
	END
	printf 'node1:10:11 [0] this process has number 5\nnode1:10:11 [0] stale file handle on /data\n' >"$out/log"
	expect 2 "rank 5" "$tool" explain --rules "$out/mine" "$out/log"
	sed -i 's/^sample.*/sample   something else/' "$out/mine"
	expect 3 "no sample for" "$tool" explain --rules "$out/mine" "$out/log"
	expect 3 "No such file" "$tool" explain --rules "$out/none" "$out/log"
	;;
refused)
	expect 3 "No such file" "$tool" explain "$out/nowhere"
	expect 3 "directory" "$tool" explain "$out"
	expect 3 "unrecognized option" "$tool" explain --nosuch
	printf '%s\n' "$oom" | gzip >"$out/log.gz"
	expect 3 "zcat" "$tool" explain "$out/log.gz"
	expect 3 "zcat" "$tool" explain < <(cat "$out/log.gz")
	printf 'BZh91AY&SY' >"$out/log.bz2"
	expect 3 "bzcat" "$tool" explain "$out/log.bz2"
	for encoding in UTF-16 UTF-16LE UTF-16BE; do
		printf '%s\n' "$oom" | iconv -t $encoding >"$out/utf16"
		expect 3 "iconv -f UTF-16" "$tool" explain "$out/utf16"
	done
	# The start of a log that was cut while it was written.
	{ head -c 4096 /dev/zero && printf '\n%s\n' "$oom"; } >"$out/cut"
	expect 2 "cuda-out-of-memory" "$tool" explain "$out/cut"
	# What cannot be read is named, and does not hide the other logs.
	printf '%s\n' "$oom" >"$out/error"
	printf 'NCCL WARN Something new\n' >"$out/warning"
	expect 2 "log.gz: compressed" "$tool" explain "$out/log.gz" "$out/error" "$out" "$out/nowhere"
	expect 2 "error (3 not read): 1 line" "$tool" explain "$out/log.gz" "$out/error" "$out" "$out/nowhere"
	expect 2 "cuda-out-of-memory" "$tool" explain "$out/log.gz" "$out/error"
	expect 3 "1 warning," "$tool" explain "$out/warning" "$out/log.gz"
	"$tool" explain --json "$out/log.gz" "$out/warning" 2>"$out/told" >"$out/json"
	[ $? = 3 ] || fail "the status of --json"
	grep -q "log.gz: compressed with gzip: zcat" "$out/told" || fail "log.gz is not named"
	for wanted in '"status": 3' '"unread": \[' '"file": ".*/log.gz"' '"why": "compressed with gzip'; do
		grep -q "$wanted" "$out/json" || fail "no $wanted in the JSON"
	done
	# The text of a log is printed, and neither executed nor used as a format.
	printf '%s\n' 'NCCL WARN $(touch '"$out"'/done) `touch '"$out"'/done` %s%n' >"$out/log"
	expect 1 '%s%n' "$tool" explain "$out/log"
	[ ! -e "$out/done" ] || fail "a log was executed"
	;;
stream)
	# A large log through a pipe, in bounded memory. Sanitizers need more memory than the bound.
	megabytes=300
	if grep -qaE '__(asan|tsan)_init' "$tool"; then
		megabytes=30
	else
		ulimit -v 65536
	fi
	{
		"$here/../../../bench/explain_log.sh" $megabytes
		echo "$oom"
	} | "$tool" explain >"$out/said" 2>&1
	[ "${PIPESTATUS[1]}" = 2 ] || fail "no error found"
	said ', rank 3'
	;;
*)
	echo "no case $case"
	exit 1
	;;
esac
exit 0
