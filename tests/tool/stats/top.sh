#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `anynet top`, `dump` and `export` with a running job: top.sh CASE BUILD_DIR. Loopback only.
set -uo pipefail
# shellcheck source=tests/said.sh
. "$(dirname "$0")/../../said.sh"

case=${1:?} build=${2:?}
tool=$build/tools/anynet
plugin=$build/libnccl-net.so
out=$(mktemp -d)
pages=$out/pages
mkdir "$pages"
run=
trap '[ -z "$run" ] || { kill "$run"; wait "$run"; } 2>/dev/null; rm -rf "$out"' EXIT
export NCCL_SOCKET_IFNAME=lo ANYNET_TRANSPORT=tcp ANYNET_STATS=$pages SLURM_JOB_ID=4711
unset NCCL_NET NCCL_DEBUG

# top STATUS OPTION...: the output is in $out/said
top() {
	local status=$1 got
	shift
	"$tool" top --once -d 0.3 "$@" >"$out/said" 2>&1
	got=$?
	[ "$status" = any ] || [ "$got" = "$status" ] || fail "status $got instead of $status"
}

# shows TEXT...: the output contains each text
shows() {
	for text in "$@"; do
		grep -qF -- "$text" "$out/said" || fail "no '$text'"
	done
}

# until_top PATTERN OPTION...: repeats top until its output matches; otherwise the test's time-out ends it
until_top() {
	local pattern=$1
	shift
	while top any "$@"; ! grep -qE -- "$pattern" "$out/said"; do
		kill -0 "$run" 2>/dev/null || fail "the run has ended, '$pattern' was not seen"
	done
}

# Starts a long run of two ranks, whose pids are $first and $second. Its low priority favours tests that run at the same
# time.
start_run() {
	nice -n 5 "$tool" perf --net "$plugin" -r 2 -b 1M -e 1M -n 1000000 >"$out/log" 2>&1 &
	run=$!
	until grep -q '#wrong' "$out/log"; do
		kill -0 "$run" 2>/dev/null || fail "ended before it began"
		sleep 0.01
	done
	first=$(awk '/Rank  0 Pid/ { print $5 }' "$out/log")
	second=$(awk '/Rank  1 Pid/ { print $5 }' "$out/log")
	until_top '8 connections'
}

# count_of TEXT NUMBER: the number of lines with the text
count_of() {
	[ "$(grep -cF -- "$1" "$out/said")" = "$2" ] || fail "not $2 times '$1'"
}

case $case in
live)
	start_run
	# In a look at which no connection is troubled: paths are shown for those that are.
	until_top '^2 processes, 8 connections.*B/s in: (fine|flaps)$'
	shows "job 4711" "pid $first" "pid $second" "net anynet  4 connections"
	count_of "   to   " 4
	count_of "   from " 4
	count_of "path 0" 0
	while top any --paths; [ "$(grep -c 'path 0 TCP lo up.*rtt' "$out/said")" != 8 ]; do
		kill -0 "$run" 2>/dev/null || fail "the run has ended, 8 paths were not seen"
	done
	LC_ALL=C grep -q $'\033' "$out/said" && fail "colours in a file"
	# On a terminal each look replaces the previous one, also without colours.
	if command -v script >/dev/null; then
		: >"$out/screen"
		TERM=xterm NO_COLOR=1 timeout -s INT 250 script -qfc "$tool top -d 0.1" "$out/screen" </dev/null >/dev/null 2>&1 &
		screen=$!
		until [ "$(LC_ALL=C grep -ac 'processes, ' "$out/screen")" -gt 1 ]; do
			kill -0 "$screen" 2>/dev/null || fail "no second look"
			sleep 0.01
		done
		[ "$(LC_ALL=C grep -ao $'\033\[H\033\[J' "$out/screen" | wc -l)" -gt 1 ] || fail "a screen is not cleared"
		kill "$screen"
		wait "$screen"
	fi
	[ "$(stat -c %a "$pages"/*"$first".*)" = 600 ] || fail "others may read a page"
	;;
json)
	command -v jq >/dev/null || skip "no jq"
	start_run
	while top any --json; ! jq -e --argjson a "$first" --argjson b "$second" '
		[.processes[].pid] == [$a, $b] and all(.processes[]; .open_connections == 4
		and .job == "4711" and all(.connections[]; .bytes > 0 and .bytes_per_s > 0
		and .requests > 0 and .error == 0 and .breaks == 0 and .paths[0].state == "up"
		and .paths[0].frames > 0 and (.peer.pid == $a or .peer.pid == $b)))
		' "$out/said" >/dev/null; do
		kill -0 "$run" 2>/dev/null || fail "the run has ended"
	done
	;;
waits)
	start_run
	kill -STOP "$second"
	until_top "pid $first, for .* pid $second, .*that process is stopped"
	shows "no statistics for" "no progress for" "stalled"
	top 2
	kill -CONT "$second"
	until_top '^2 processes, 8 connections.*(fine|flaps)$'
	;;
flap)
	LD_PRELOAD=$build/tests/tool/stats/libbreak_once.so \
		nice -n 5 "$tool" perf --net "$plugin" -r 2 -b 1M -e 1M -n 1000000 >"$out/log" 2>&1 &
	run=$!
	until_top 'broke 1, recovered 1'
	;;
dump)
	command -v jq >/dev/null || skip "no jq"
	start_run
	"$tool" dump "$first" >"$out/said" 2>&1 || fail "status $?"
	shows "pid $first" "job 4711" "path 0 TCP lo up" "opened with 1 path, first TCP 127.0.0.1"
	count_of " pid $second addr 127.0.0.1:" 4
	count_of "Z opened with" 4
	"$tool" dump --json "$second" >"$out/said" 2>&1 || fail "status $?"
	jq -e --argjson b "$second" '[.processes[].pid] == [$b] and .processes[0].ended == false
		and all(.processes[0].connections[]; .events[0].kind == "opened"
		and .events[0].number == 1 and .event_count == (.events | length))
		' "$out/said" >/dev/null || fail "other JSON"
	;;
killed)
	# Its statistics file remains readable, until another process starts.
	start_run
	kill -KILL "$second"
	wait "$run"
	run=
	"$tool" dump "$second" >"$out/said" 2>&1 || fail "status $?"
	shows "pid $second" "the process has ended; it wrote this at" "Z opened with 1 path"
	count_of "Z opened with" 4
	;;
export)
	start_run
	"$tool" export >"$out/said" 2>&1 || fail "status $?"
	shows 'anynet_processes 2' 'anynet_left_out 0' "{pid=\"$first\"," 'job_id="4711"'
	count_of 'anynet_connection_bytes_total{' 8
	count_of 'anynet_path_up{' 8
	# The output file is complete, and its mode follows the umask.
	(umask 027 && "$tool" export --textfile "$out/jobs.prom") || fail "status $?"
	[ "$(stat -c %a "$out/jobs.prom")" = 640 ] || fail "mode $(stat -c %a "$out/jobs.prom")"
	grep -c '^anynet_path_up{' "$out/jobs.prom" | grep -x 8 >/dev/null || fail "not the whole file"
	[ "$(find "$out" -name 'jobs.prom*' | wc -l)" = 1 ] || fail "something else is left"
	# Repeatedly, until it is terminated.
	rm "$out/jobs.prom"
	"$tool" export --textfile "$out/jobs.prom" --every 1 &
	exporter=$!
	until [ -e "$out/jobs.prom" ]; do kill -0 "$exporter" || fail "it has ended"; sleep 0.01; done
	rm "$out/jobs.prom"
	until [ -e "$out/jobs.prom" ]; do kill -0 "$exporter" || fail "it has ended"; sleep 0.01; done
	kill "$exporter"
	wait "$exporter" || fail "status $? of --every"
	# As an HTTP server.
	"$tool" export --listen 127.0.0.1:0 >"$out/url" &
	exporter=$!
	until grep -q metrics "$out/url"; do kill -0 "$exporter" || fail "it has ended"; sleep 0.01; done
	port=$(sed 's/.*:\([0-9]*\).*/\1/' "$out/url")
	exec 3<>"/dev/tcp/127.0.0.1/$port"
	printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
	cat <&3 >"$out/said"
	exec 3>&-
	kill "$exporter"
	wait "$exporter" || fail "status $? of --listen"
	shows 'HTTP/1.1 200 OK' 'text/plain; version=0.0.4' 'anynet_processes 2'
	count_of 'anynet_path_up{' 8
	;;
stale)
	# Files without a live process are not shown; the next process removes old ones, and nothing else.
	start_run
	cp "$pages"/*"$first".* "$pages/anynet-stats.1.0badcafe"
	cp "$pages"/*"$first".* "$pages/anynet-stats.2.0badcafe"
	touch -d '1 hour ago' "$pages/anynet-stats.1.0badcafe"
	touch -d '1 hour ago' "$pages/another file"
	ln -s /etc/passwd "$pages/anynet-stats.3.0badcafe"
	mkfifo "$pages/anynet-stats.4.0badcafe"
	until_top '^2 processes'
	# A job that takes longer than a tenth of a second: after this time a process creates its file.
	"$tool" perf --net "$plugin" -r 2 -b 1M -e 1M -n 400 >/dev/null || fail "a second job"
	[ -e "$pages/anynet-stats.1.0badcafe" ] && fail "an old page is still there"
	for file in "anynet-stats.2.0badcafe" "another file" "anynet-stats.3.0badcafe"; do
		[ -e "$pages/$file" ] || fail "$file is gone"
	done
	until_top '^2 processes, 8'
	kill -KILL "$first"
	wait "$run"
	run=
	top 0
	shows "0 processes"
	;;
errors)
	for wrong in "-d 0" "-d x" "-d 1x" "-d nan" "--what"; do
		# shellcheck disable=SC2086
		top 3 $wrong
	done
	top 3 --dir "$out/nowhere"
	shows "nowhere: No such file"
	top 0
	shows "0 processes, 0 connections"
	for wrong in "" "x" "0" "-1" "1x" "1 2" "99999999999" "--what 1"; do
		# shellcheck disable=SC2086
		"$tool" dump $wrong >"$out/said" 2>&1
		[ $? = 3 ] || fail "dump $wrong is taken"
	done
	"$tool" dump 1 --dir "$out/nowhere" >"$out/said" 2>&1
	[ $? = 3 ] || fail "no directory"
	"$tool" dump 1 >"$out/said" 2>&1
	[ $? = 2 ] || fail "no process"
	shows "process 1 has no open connections"
	for wrong in "-l 1" "-l :" "-l x:1" "-l 127.0.0.1:65536" "-l ::1:1" "-e 1" "-t x -e 0" \
		"-t x -l 127.0.0.1:0" "what"; do
		# shellcheck disable=SC2086
		"$tool" export $wrong >"$out/said" 2>&1
		[ $? = 3 ] || fail "export $wrong is taken"
	done
	for wrong in "--dir $out/nowhere" "-t $out/nowhere/file" "-l 192.0.2.1:1"; do
		# shellcheck disable=SC2086
		"$tool" export $wrong >"$out/said" 2>&1
		[ $? = 2 ] || fail "export $wrong"
	done
	"$tool" export >"$out/said" || fail "export of nothing"
	shows "anynet_processes 0"
	top 0 --json
	shows '"trouble": "fine"' '"processes": []'
	ANYNET_STATS=off "$tool" perf --net "$plugin" -r 2 -b 1K -e 1K -n 1 >/dev/null || fail "off"
	ANYNET_STATS=$out/nowhere "$tool" perf --net "$plugin" -r 2 -b 1K -e 1K -n 1 >/dev/null ||
		fail "a directory that is not there"
	"$tool" perf --net "$plugin" -r 2 -b 1K -e 1K -n 1 >/dev/null || fail "a run"
	[ -z "$(ls -A "$pages")" ] || fail "a page is left: $(ls -A "$pages")"
	;;
*)
	echo "no case $case"
	exit 1
	;;
esac
exit 0
