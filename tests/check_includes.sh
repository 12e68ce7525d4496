#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Who may include whom (docs/architecture.md): plugin/ and transports/ meet only in
# include/nccl_net/, and NCCL's own ABI is known to plugin/, tools/, bench/ and tests/ alone; and what nothing there may
# use. The folders of transports/ among themselves: check_floors.py. Usage: check_includes.sh SOURCE_DIR
set -eu
cd "$1"
bad=0

# includes PATH...: every #include of the C files there, as "file:line: what"
includes() {
	for path in "$@"; do
		[ -e "$path" ] || continue
		grep -RHnE --include='*.[ch]' '^[[:space:]]*#[[:space:]]*include' "$path" || true
	done
}

# forbid WHY PATTERN PATH...
forbid() {
	why=$1 pattern=$2
	shift 2
	if includes "$@" | grep -E "include[[:space:]]*[<\"]($pattern)"; then
		echo "not allowed: $why"
		bad=1
	fi
}

up='(\.\./)*'
forbid "plugin/ reaches transports through include/nccl_net/ only" \
	"${up}(transports|base|wire|device|memory|path|message|session|service)/" plugin
forbid "transports never include plugin/" "${up}plugin/" transports
forbid "plugin headers by name" '(core|selector|abi)\.h"' transports
forbid "NCCL's ABI is not the transports' business" '(.*/)?abi/' transports
forbid "the contracts include only each other" '(.*/)?(plugin|transports|tools|tests)/' include
forbid "the contracts do not know NCCL's ABI" '(nccl_net/)?abi/' \
	include/nccl_net/comm.h include/nccl_net/config.h include/nccl_net/device.h \
	include/nccl_net/log.h include/nccl_net/stats.h include/nccl_net/subnet.h include/nccl_net/util.h include/nccl_net/wire.h
forbid "product code never includes tests" "(.*/)?tests/" plugin transports tools include
# A program's locale decides what is a letter, and which two differ in case only: see util.h.
if grep -RnE --include='*.[ch]' '\b(strn?casecmp|strcasestr|to(lower|upper)|is(al(num|pha)|print|graph|punct|space|upper|lower))\(' \
	plugin transports include; then
	echo "not allowed: functions that follow the locale, in the plugin"
	bad=1
fi
# printf writes the decimal point of the program's locale: seconds_text in libc_text.h does not.
if grep -RnE --include='*.[ch]' '"[^"]*%[-+#0-9.*]*[aefgAEFG]' plugin transports; then
	echo "not allowed: floating-point conversions in texts of the plugin"
	bad=1
fi
[ "$bad" = 0 ] && echo "includes: as they should be"
exit "$bad"
