#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The built library from outside (net-api.md §1.1, §2.7, §8 row 1): exports, dependencies, flags.
# Usage: artefact.sh LIBRARY SOURCE_DIR GLIBC (the oldest to run with; "": that of this system)
set -euo pipefail
export LC_ALL=C
lib=$1 source_dir=$2 glibc=$3
bad=0

fail() {
	echo "FAIL: $*"
	bad=1
}

# same WHAT EXPECTED FOUND
same() {
	if [ "$2" != "$3" ]; then
		fail "$1"
		diff <(echo "$2") <(echo "$3") || true
	fi
}

# Name and size of every exported object; sizes are those of net-api.md §1.3.
exported=$(nm -D -S --defined-only "$lib" |
	awk '{ printf "%s %s %d\n", $4, $3 ~ /[DB]/ ? "object" : $3, strtonum_hex($2) }
	function strtonum_hex(h, i, n) {
		for (i = 1; i <= length(h); i++)
			n = n * 16 + index("0123456789abcdef", substr(h, i, 1)) - 1
		return n
	}' | sort -V)
same "exported symbols" "ncclNetPlugin_v5 object 128
ncclNetPlugin_v6 object 136
ncclNetPlugin_v7 object 152
ncclNetPlugin_v8 object 152
ncclNetPlugin_v9 object 160
ncclNetPlugin_v10 object 160
ncclNetPlugin_v11 object 176
ncclNetPlugin_v12 object 176" "$exported"

dynamic=$(readelf -dW "$lib")
# Before glibc 2.34 threads and dlopen were separate libraries.
same "needed libraries" "${glibc:+libpthread.so.0 libdl.so.2 }libc.so.6" "$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic" | grep -v '^ld-linux' | paste -sd' ')"
same "soname" "libnccl-net.so" "$(sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p' <<<"$dynamic")"
flags=$(grep '(FLAGS_1)' <<<"$dynamic" || true)
[[ $flags == *NODELETE* ]] || fail "not marked NODELETE: ${flags:-no FLAGS_1}"
[[ $flags == *NOW* ]] || fail "not marked NOW: ${flags:-no FLAGS_1}"
grep -qE '\((TEXTREL|RPATH|RUNPATH)\)' <<<"$dynamic" && fail "text relocations or a run path"

segments=$(readelf -lW "$lib")
stack=$(awk '$1 == "GNU_STACK" { print $7 }' <<<"$segments")
same "stack permissions" "RW" "$stack"
grep -q GNU_RELRO <<<"$segments" || fail "no RELRO segment"
awk '$1 == "LOAD" && /RWE/' <<<"$segments" | grep . && fail "a writable and executable segment"

grep -qaF "$source_dir" "$lib" && fail "the build directory's name is inside"

# Functions that read the environment or the locale (gmtime_r: TZ, at its first call; strerror: LANGUAGE),
# which the program may change meanwhile in another thread.
readers=$(nm -D --undefined-only "$lib" | awk '{ sub("@.*", "", $NF); print $NF }' |
	grep -xE 'gmtime(_r)?|localtime(_r)?|mktime|timegm|tzset|ctime(_r)?|strftime|setlocale|strerror(_r)?|getaddrinfo|gethostbyname(_r)?|tmpfile|syslog' || true)
same "calls that read the environment" "" "$readers"

floor=$(readelf -VW "$lib" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1)
floor=${floor#GLIBC_}
[ -z "$glibc" ] || [ "$(printf '%s\n' "$floor" "$glibc" | sort -V | tail -1)" = "$glibc" ] ||
	fail "wants glibc $floor, more than $glibc"
echo "runs with glibc $floor and newer, $(stat -c %s "$lib") bytes with debug information"
[ "$bad" = 0 ] && echo "artefact: as it should be"
exit "$bad"
