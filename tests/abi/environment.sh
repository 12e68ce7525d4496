#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program may change its environment in another thread, and a reader may crash meanwhile. So only plugin/ reads it,
# when the plugin is loaded or started.
# Usage: environment.sh TRANSPORT_OBJECTS PLUGIN_OBJECTS, each a list with semicolons
set -euo pipefail
export LC_ALL=C

# readers LIST: those of the objects that use the environment
readers() {
	local objects
	IFS=';' read -ra objects <<<"$1"
	nm -A -u "${objects[@]}" | awk '$NF ~ /^(secure_getenv|getenv|__environ|_?environ|setenv|unsetenv|putenv|clearenv|wordexp)$/' |
		sed 's/:.*//; s/.*\///' | sort -u
}

found=$(readers "$1")
known=$(readers "$2")
[ "$known" ] || { echo "FAIL: not even plugin/ reads the environment: what is looked for is wrong"; exit 1; }
[ -z "$found" ] || { echo "FAIL: the environment is used in $found"; exit 1; }
echo "read only in: ${known//$'\n'/ }"
