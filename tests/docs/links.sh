#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No relative link of the documents is dead, and README.md has at most 200 lines. Usage: links.sh SOURCE_DIR
set -u
cd "${1:?}" || exit 1
bad=0
awk -f tests/docs/links.awk README.md CHANGELOG.md docs/*.md bench/*.md || bad=1
lines=$(wc -l <README.md)
if [ "$lines" -gt 200 ]; then
	echo "README.md has $lines lines: more than 200"
	bad=1
fi
exit "$bad"
