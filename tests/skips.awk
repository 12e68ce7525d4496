# SPDX-License-Identifier: Apache-2.0
# Passes ctest's output on, and before its summary says which tests were skipped, whole or case by case, and why: the
# line of their output that starts with "SKIP". Exits with 1 if the list (tests/skips.txt) does not allow one of them.
# Usage: ctest ... | awk -v log_file=LastTest.log -v list=tests/skips.txt -v user="$(id -u)" -f skips.awk

/^[0-9]+% tests passed/ { summary = 1 }
summary { held = held $0 "\n"; next }
/\*\*\*Skipped/ {
	for (i = 1; i < NF; i++)
		if ($i ~ /^#[0-9]+:$/)
			whole[skipped[++count] = $(i + 1)]
}
{ print; fflush() }

# Two regular expressions a line: names of tests without their build, and allowed reasons.
function read_list(    line, at) {
	while ((getline line < list) > 0) {
		if (line ~ /^(#|$)/ || (line ~ /^unprivileged / && user == 0))
			continue
		sub(/^unprivileged /, "", line)
		at = index(line, " ")
		tests[++rules] = "^((asan|tsan|fuzz)\\.)?(" substr(line, 1, at - 1) ")$"
		reasons[rules] = substr(line, at + 1)
	}
}

function judge(name, why,    i) {
	for (i = 1; i <= rules; i++)
		if (name ~ tests[i] && why ~ reasons[i])
			return
	refused[name ": " why]
}

# ctest's log: the name and output of every test, with cmocka's lines about its cases.
function read_log(    line, name, why, running) {
	while ((getline line < log_file) > 0) {
		if (match(line, /^[0-9]+\/[0-9]+ Testing: /)) {
			name = substr(line, RLENGTH + 1)
			running = 0
		} else if (line ~ /^\[ RUN/) {
			running = 1
			why = ""
		} else if (sub(/^SKIP:? /, "", line)) {
			why = line
			if (!(name in reason))
				reason[name] = line
		} else if (line ~ /^\[  SKIPPED/ && running && !(name in whole)) {
			cases[why ? why : "(gave no reason) " name ": " substr(line, 14)]++
			judge(name, why)
			running = 0
		} else if (line ~ /^\[ +(OK|FAILED) /) {
			running = 0
		}
	}
}

END {
	read_list()
	read_log()
	printf "\nSkipped tests: %d\n", count
	for (i = 1; i <= count; i++) {
		why = skipped[i] in reason ? reason[skipped[i]] : "(gave no reason)"
		printf "  %s: %s\n", skipped[i], why
		judge(skipped[i], why)
	}
	for (why in cases)
		total += cases[why]
	printf "Skipped cases of tests that ran: %d\n", total
	for (why in cases)
		printf "  %d x %s\n", cases[why], why
	for (skip in refused) {
		printf "check: not allowed to skip: %s\n", skip
		failed = 1
	}
	printf "\n%s", held
	exit failed
}
