#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Lines that the tests of a coverage build have reached, and their share, by folder of the product.
# Usage: coverage.sh BUILD_DIR
set -euo pipefail
build=$(cd "${1:?}" && pwd)
source=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# The plugin's objects and the tool's.
find "$build/plugin" "$build/transports" "$build/tools" -name '*.gcda' -print0 |
	xargs -0 -r gcov -n -s "$source" 2>/dev/null |
	awk -F"'" '
		/^File/ { file = $2 }
		/^Lines executed:/ && match(file, /(plugin|transports|tools)(\/.*)?\/[^\/]*\.c$/) {
			folder = substr(file, RSTART)
			sub(/\/[^\/]*$/, "", folder)
			split($0, part, /[:% ]+/)
			lines[folder] += part[5]
			reached[folder] += part[3] * part[5] / 100
			file = ""
		}
		END {
			for (folder in lines) {
				printf "%-28s %6d lines %5.1f %%\n", folder, lines[folder], 100 * reached[folder] / lines[folder] | "sort"
				all += lines[folder]
				done += reached[folder]
			}
			close("sort")
			if (!all) {
				print "coverage: nothing was reached"
				exit 1
			}
			printf "%-28s %6d lines %5.1f %%\n", "all", all, 100 * done / all
		}'
