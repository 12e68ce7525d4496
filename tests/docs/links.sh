#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No relative link of the documents is dead, and no reference of a source to docs/net-api.md; README.md has at most 200
# lines, and docs/architecture.md at most 250; it names every source of plugin/ and transports/, and none that does not
# exist; the chart docs/results.svg is that of bench/results.dat. Usage: links.sh SOURCE_DIR
set -u
cd "${1:?}" || exit 1
bad=0
awk -f tests/docs/links.awk *.md docs/*.md bench/*.md || bad=1
grep -rlI '§' plugin transports include tools tests bench | xargs awk -f tests/docs/sections.awk docs/net-api.md || bad=1

at_most() {
	lines=$(wc -l <"$2")
	[ "$lines" -le "$1" ] && return
	echo "$2 has $lines lines: more than $1"
	bad=1
}
at_most 200 README.md
at_most 250 docs/architecture.md

sources=$(find plugin transports -name '*.c' | sed 's|.*/||' | sort -u)
floors=$(sed -n '/^## Floors/,/^## Words/p' docs/architecture.md | grep -o '`[a-z0-9_]*\.c`' | tr -d '`' | sort -u)
for name in $(echo "$sources" | grep -vxF "$floors"); do
	echo "docs/architecture.md does not name $name" && bad=1
done
for name in $(echo "$floors" | grep -vxF "$sources"); do
	echo "docs/architecture.md names $name, which does not exist" && bad=1
done
drawn=$(sed -n 's|.*<text>\([0-9.]*\)</text>.*|\1|p' docs/results.svg | grep '\.[0-9][0-9]$')
[ "$drawn" = "$(awk '!/^#/ { print $1 }' bench/results.dat)" ] || {
	echo "docs/results.svg does not show bench/results.dat: gnuplot bench/results.gp >docs/results.svg"
	bad=1
}
exit "$bad"
