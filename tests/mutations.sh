#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Plants the faults of tests/mutations.def in a copy of the sources, one at a time, and runs the tests
# that each of them names: one has to fail.
#
# Usage: tests/mutations.sh [--simulate=S] [NAME...]    (extended regular expressions; none: all mutations)
#
# A mutation is killed if one of its tests fails, and survives if none does. It is stale if its text is
# not found exactly once in its file, or if the file does not compile with it. The exit status is 0 if all
# are killed.
#
# --simulate: instead of the tests, seeds of the simulator have to notice within S seconds of a processor. Those of
# tests/sim/mutations.txt are planted, unless names are given.
#
# JOBS: copies that work side by side (default: one for each processor). They and their builds stay in
# build/mutations for the next run.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C # texts are cut by bytes

list=tests/mutations.def
jobs=${JOBS:-$(nproc)}
simulate=''
case ${1:-} in
--simulate=*)
	simulate=${1#*=}
	shift
	;;
esac
top=$PWD/build/mutations

die() {
	echo "mutations: $*" >&2
	exit 2
}

# --- the list ---

# Of mutation N: in files[N], olds[N] becomes news[N]; one of reds[N] and equivalents[N] is empty.
names=() files=() olds=() news=() reds=() equivalents=()

read_list() {
	local line number=0 n=-1

	while IFS= read -r line; do
		number=$((number + 1))
		if [[ $line =~ ^\[([a-z0-9-]+)\]\ ([^ ]+)$ ]]; then
			n=$((n + 1))
			names[n]=${BASH_REMATCH[1]} files[n]=${BASH_REMATCH[2]}
			olds[n]='' news[n]='' reds[n]='' equivalents[n]=''
			continue
		fi
		case $line in
		'' | '#'*) continue ;;
		'['*) die "$list:$number: not [name] file" ;;
		esac
		[ $n -ge 0 ] || die "$list:$number: before the first [name] file"
		case $line in
		-*) olds[n]+=${olds[n]:+$'\n'}${line:1} ;;
		+*) news[n]+=${news[n]:+$'\n'}${line:1} ;;
		'red: '*) reds[n]=${line#red: } ;;
		'equivalent: '*) equivalents[n]=${line#equivalent: } ;;
		esac
	done <$list
}

check_list() {
	local n twice

	for n in "${!names[@]}"; do
		[ -n "${olds[n]}" ] || die "${names[n]}: no line begins with -"
		[ "${olds[n]}" != "${news[n]}" ] || die "${names[n]} changes nothing"
		[ -n "${reds[n]}" ] || [ -n "${equivalents[n]}" ] ||
			die "${names[n]}: neither red nor equivalent"
	done
	twice=$(printf '%s\n' "${names[@]}" | sort | uniq -d)
	[ -z "$twice" ] || die "two mutations are called $twice"
}

# is_asked_for NAME PATTERN...
is_asked_for() {
	local name=$1 pattern

	shift
	[ $# -gt 0 ] || return 0
	for pattern; do
		[[ ! $name =~ ^($pattern)$ ]] || return 0
	done
	return 1
}

# around N FILE: sets $before and $after, the text around the original. False: it does not occur exactly once.
around() {
	local text

	[ -f "$2" ] || return 1
	text=$(cat "$2" && echo .)
	text=${text%.}
	before=${text%%"${olds[$1]}"*}
	after=${text#*"${olds[$1]}"}
	[ "$before" != "$text" ] && [[ $after != *"${olds[$1]}"* ]]
}

# --- copies and their builds ---

# The build of a test.
kind_of() {
	case $1 in
	asan.*) echo asan-ubsan ;;
	tsan.*) echo tsan ;;
	*) echo release ;;
	esac
}

sums() {
	(cd "$1" && xargs -0r sha1sum 2>/dev/null | sort) <"$top/files"
}

# Copies only changed files, so that the build stays valid.
copy_sources() {
	local copy=$1

	if ! cmp -s "$top/files" "$copy/files"; then
		rm -rf "$copy"
		mkdir -p "$copy/src"
		cp "$top/files" "$copy/files"
	fi
	comm -23 <(sums .) <(sums "$copy/src") | cut -c 43- |
		xargs -d '\n' -r cp --parents -t "$copy/src"
}

# A file "targets" with lines "test target": the files of this build in the test's command line.
configure() {
	local copy=$1 dir=$1/$2

	# CMake need not run, and the file exists.
	[ -n "$(find "$copy/src" -name 'CMake*' -newer "$dir/targets" 2>&1)" ] || return 0
	mkdir -p "$dir/.cmake/api/v1/query"
	touch "$dir/.cmake/api/v1/query/codemodel-v2"
	cmake -S "$copy/src" --preset "$2" -B "$dir" -DCMAKE_C_COMPILER=gcc -DBUILD_TESTING=ON \
		-DANYNET_WERROR=OFF >"$copy/log" 2>&1 || return 1
	jq -r '.name as $name | .artifacts[]?.path | "\(.) \($name)"' \
		"$dir"/.cmake/api/v1/reply/target-*.json >"$dir/artifacts"
	# A test that hangs has failed. ctest would wait for minutes.
	find "$dir" -name CTestTestfile.cmake -exec sed -i 's/ TIMEOUT "[0-9]*"/ TIMEOUT "60"/' {} +
	find "$dir" -name CTestTestfile.cmake -exec grep -h '^add_test(' {} + |
		awk -v dir="$dir/" '
			FILENAME != "-" { target[$1] = $2; next }
			{
				gsub(/^add_test\((\[=*\[)?|\]=*\]$/, "", $1)
				n = split($0, quoted, "\"")
				for (i = 2; i <= n; i += 2) {
					at = index(quoted[i], dir)
					path = substr(quoted[i], at + length(dir))
					if (at && path in target)
						print $1, target[path]
					else if (quoted[i] "/" == dir)
						print $1, "all" # a script that gets the build directory may run anything in it
				}
			}' "$dir/artifacts" - >"$dir/targets"
}

prepare() {
	local copy=$1 kind

	copy_sources "$copy"
	for kind in $kinds; do
		configure "$copy" "$kind" || return 1
	done
}

# build COPY PROCESSORS TEST...: all that these tests need
build() {
	local copy=$1 processors=$2 kind targets

	shift 2
	for kind in $kinds; do
		targets=$(awk 'FILENAME == "-" { asked[$1]; next } $1 in asked { print $2 }' \
			- "$copy/$kind/targets" <<<"$(printf '%s\n' "$@")" | sort -u)
		[ -n "$targets" ] || continue
		# shellcheck disable=SC2086
		cmake --build "$copy/$kind" -j "$processors" --target $targets >"$copy/log" 2>&1 || return 1
	done
}

# Newer kernels place mappings where gcc 12's ThreadSanitizer does not expect them.
fixed_addresses=''
if setarch -R true 2>/dev/null; then
	fixed_addresses='setarch -R'
fi

# run COPY "CTEST-OPTIONS" TEST...: prints ctest's lines about them
run() {
	local copy=$1 options=$2 kind

	shift 2
	for kind in $kinds; do
		# shellcheck disable=SC2086
		$fixed_addresses ctest --test-dir "$copy/$kind" $options \
			-R "^($(IFS='|' && echo "$*"))\$" 2>&1 || true
	done | sed -n 's/.* Test *#[0-9]*: //p'
}

# side_by_side FUNCTION [ARGUMENT...]: runs it concurrently, with each copy as its first argument
side_by_side() {
	local function=$1 copy pids=() pid

	shift
	for copy in $(seq "$jobs"); do
		"$function" "$top/$copy" "$@" &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || { tail -20 "$top"/*/log >&2; die "$function failed"; }
	done
}

# --- the mutations ---

# run_seeds COPY [OPTION...]: prints what the simulator found; the status says nothing
run_seeds() {
	local dir=$1/release

	"$dir/tests/sim/simulate" "$dir/libnccl-net.so" --jobs=1 --stop --no-shrink --first="${FIRST:-1}" "${@:2}" \
		2>&1 | tee "$1/log" | sed -n 's/^seed [0-9]* fails //p; s/.*\(--seed=.*\) --print/\1/p' || true
}

# run_all_seeds COPY: half of the time for all kinds of runs, a quarter for those with short time-outs, and then the tests that
# measure stalls, which take some 15 s
run_all_seeds() {
	run_seeds "$1" --processor-seconds=$((simulate / 2)) | grep . && return
	run_seeds "$1" --processor-seconds=$((simulate / 4)) --brief | grep . && return
	run "$1" --stop-on-failure 'sim[.]stalls-.*' | sed -nE 's/^([^ ]*) .*\*\*\*.*/\1/p'
}

# report N RESULT
report() {
	echo "$2" >"$top/results/${names[$1]}"
	printf '%3d/%d %-32s %s\n' $(($1 + 1)) "${#names[@]}" "${names[$1]}" "$2"
}

# The requested ones that can be planted: their numbers in $todo, their builds in $kinds.
choose() {
	local n red before after

	for n in "${!names[@]}"; do
		is_asked_for "${names[n]}" "$@" || continue
		if [ -n "${equivalents[n]}" ]; then
			report "$n" "equivalent: ${equivalents[n]}"
		elif ! around "$n" "${files[n]}"; then
			report "$n" "STALE: its text is not found exactly once in ${files[n]}"
		else
			todo+=("$n")
			for red in ${simulate:-${reds[n]}}; do
				kinds+=" $(kind_of "$red")"
			done
		fi
	done
	kinds=$(tr ' ' '\n' <<<"$kinds" | sort -u)
}

# The names that match the patterns: tests[N]
find_tests() {
	local all n pattern

	all=$(for kind in $kinds; do
		ctest --test-dir "$top/1/$kind" -N | sed -n 's/^ *Test *#[0-9]*: //p'
	done)
	for n in "${todo[@]}"; do
		for pattern in ${reds[n]}; do
			tests[n]+=" $(grep -xE "$pattern" <<<"$all")" ||
				die "${names[n]}: no test is called $pattern"
		done
	done
}

# A test that fails or is skipped without a fault shows nothing: verdicts[TEST].
run_unharmed() {
	local test status

	while read -r test status; do
		verdicts[$test]=$status
	done < <(run "$top/1" "-j $jobs" "$@" | awk '{ print $1, / Passed / ? "Passed" : $0 }')
}

# What to report of a mutation without running it; empty: run it.
obstacle() {
	local test passed=''

	for test in ${tests[$1]}; do
		case ${verdicts[$test]:-not run} in
		Passed) passed=yes ;;
		*Skipped*) ;;
		*) echo "FAILED without it: $test" && return ;;
		esac
	done
	[ -n "$passed" ] || echo "skipped, as its tests are: ${reds[$1]}"
}

# Processes of a copy: ctest ends a test that hangs, but not what the test has started.
end_programs() {
	local exe

	for exe in /proc/[0-9]*/exe; do
		if [[ $(readlink "$exe") == "$1"/* ]]; then
			exe=${exe%/exe}
			kill -KILL "${exe#/proc/}" 2>/dev/null || true
		fi
	done
}

# simulate_one COPY: builds the plugin only, then runs seeds
simulate_one() {
	local copy=$1 dir=$1/release said

	if ! cmake --build "$dir" -j 1 --target nccl-net --target simulate --target sim_ibverbs >"$copy/log" 2>&1; then
		echo "STALE: it does not compile: $(grep -m1 -E 'error|undefined' "$copy/log" || true)"
		return
	fi
	said=$(run_all_seeds "$copy")
	if [ -n "$said" ]; then
		echo "killed by ${said//$'\n'/ }"
	else
		echo "SURVIVED $simulate s"
	fi
}

# plant COPY N: applies one mutation. The next one finds the file restored.
plant() {
	local copy=$1 n=$2 file=$1/src/${files[$2]} began=$SECONDS before after red result

	around "$n" "$file"
	printf '%s' "$before${news[n]}$after" >"$file"
	# shellcheck disable=SC2086
	if [ -n "$simulate" ]; then
		result=$(simulate_one "$copy")
	elif ! build "$copy" 1 ${tests[n]}; then
		result="STALE: it does not compile: $(grep -m1 -E 'error|undefined' "$copy/log" || true)"
	else
		# shellcheck disable=SC2086
		red=$(run "$copy" --stop-on-failure ${tests[n]} |
			sed -nE '/\*\*\*(Skipped|Not Run)/d; s/^([^ ]*) .*\*\*\*([A-Za-z]*).*/\1 (\2)/p')
		result="${red:+killed by ${red%%$'\n'*}}"
		result="${result:-SURVIVED ${reds[n]}} in $((SECONDS - began)) s"
		[[ $red != *Timeout* ]] || end_programs "$copy"
	fi
	printf '%s' "$before${olds[n]}$after" >"$file"
	report "$n" "$result"
}

# work COPY: one mutation after another that no other copy has taken
work() {
	local copy=$1 n result

	for n in "${todo[@]}"; do
		mkdir "$top/taken/$n" 2>/dev/null || continue
		result=''
		[ -n "$simulate" ] || result=$(obstacle "$n")
		if [ -n "$result" ]; then
			report "$n" "$result"
		else
			plant "$copy" "$n"
		fi
	done
}

# count PATTERN: results
count() {
	cat "$top"/results/* 2>/dev/null | grep -cE "^($1)" || true
}

todo=() tests=() kinds=''
if [ -n "$simulate" ] && [ $# = 0 ]; then
	# shellcheck disable=SC2046
	set -- $(sed 's/#.*//' tests/sim/mutations.txt)
fi
declare -A verdicts
mkdir -p "$top"
rm -rf "$top/taken" "$top/results"
mkdir "$top/taken" "$top/results"
git ls-files -z --cached --others --exclude-standard >"$top/files"
read_list
check_list
choose "$@"
if [ ${#todo[@]} -gt 0 ]; then
	side_by_side prepare
	if [ -z "$simulate" ]; then
		find_tests
		# shellcheck disable=SC2046
		set -- $(tr ' ' '\n' <<<"${tests[*]}" | sort -u)
		side_by_side build 1 "$@"
		run_unharmed "$@"
	fi
	side_by_side work
fi
failed=$(count 'SURVIVED|STALE|FAILED')
echo
grep -E '^(SURVIVED|STALE|FAILED)' "$top"/results/* /dev/null | sed "s|^$top/results/|  |" || true
echo "$(count equivalent) equivalent, $(count skipped) skipped, $SECONDS s"
echo "$(count killed) passed, $failed failed"
[ "$failed" = 0 ]
