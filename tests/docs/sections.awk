# SPDX-License-Identifier: Apache-2.0
# Checks that each section, trap and row of docs/net-api.md that a source names exists: "§3.5", "§6 trap 25",
# "§8 rows 8 - 10". The first file is docs/net-api.md, the others are sources, in which § always means it. Exit 1: one is
# missing, or none was found.

function check(name) {
	references++
	if (name in known)
		return
	print FILENAME ":" FNR ": docs/net-api.md has no §" name
	missing++
}

# "3.1-3.5", "6 trap 25" or "8 rows 12 and 13". Of a range its ends are checked.
function check_reference(text,    parts, n, i) {
	if (text !~ /(trap|row)/) {
		n = split(text, parts, "-")
		for (i = 1; i <= n; i++)
			check(parts[i])
		return
	}
	sub(/traps/, "trap", text)
	sub(/rows/, "row", text)
	n = split(text, parts, /[^0-9]+/)
	for (i = 2; i <= n; i++)
		check(parts[1] (text ~ /trap/ ? " trap " : " row ") parts[i])
}

NR == FNR && /^##+ [0-9]/ {
	section = $2
	sub(/\.$/, "", section)
	known[section]
}
# A table below a section's own heading: its rows are traps or rows, as the table's head says.
NR == FNR && /^\| (trap|row) \|/ { kind = $2 }
NR == FNR && /^##/ { kind = "" }
NR == FNR && kind && /^\| [0-9]+ \|/ { known[section " " kind " " $2] }
NR == FNR { next }
{
	while (match($0, /§[0-9]+(\.[0-9]+)?(-[0-9]+\.[0-9]+)?( (traps?|rows?) [0-9]+((,| and| -) ?[0-9]+)*)?/)) {
		found = substr($0, RSTART, RLENGTH)
		$0 = substr($0, RSTART + RLENGTH)
		sub(/^§/, "", found)
		check_reference(found)
	}
}
END {
	print references + 0 " references to sections of docs/net-api.md, " missing + 0 " of them missing"
	exit missing || !references
}
