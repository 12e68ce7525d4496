#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# README's commands run as they are written, measurements shorter. Usage: readme.sh SOURCE_DIR BUILD_DIR
# Installing is tests/abi/install.sh; what needs root, a guest or an hour is looked at without being run.
set -uo pipefail
cd "${1:?}" || exit 1
build=${2:?}
PATH=$build/tools:$build/bench:$PATH
count=0 bad=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# works COMMAND...: it ends well
works() {
	count=$((count + 1))
	"$@" >"$out" 2>&1 && return
	echo "FAIL: README.md: $*"
	cat "$out"
	bad=1
}

while read -r line; do
	case $line in
	'make '*) for part in ${line//&&/}; do [ "$part" = make ] || works make -n "$part"; done ;;
	'anynet perf'*) works $line -e 1M -n 2 ;;
	'anynet '*) works $line ;;
	esac
done < <(awk '/^```/ { on = !on; next } on { sub(/ +#.*/, ""); print }' README.md | grep -E '^(make|anynet) ')
while read -r line; do
	case $line in
	'net_bench '*) works $line --quick --rounds 1 --window 20 --net "$build/libnccl-net.so" ;;
	*) for word in $line; do [[ $word != */*.sh ]] || works bash -n "$word"; done ;;
	esac
done < <(grep -oE '`(net_bench|tests/guest/guest.sh|bench/real/run.sh) [^`]*`' README.md | tr -d '`')
[ "$count" -ge 10 ] || { echo "FAIL: only $count commands" && bad=1; }
echo "$count commands"
exit "$bad"
