# SPDX-License-Identifier: Apache-2.0
# From a library's symbols (readelf --dyn-syms, sorted by address) to the assembly text of a stub of it, and to the
# file `map`, its version script: of each symbol the newest version that is no newer than `floor`.
# Symbols of one address stay so: the linker looks for such aliases when it copies data into an executable.

# 2.3.4 as a number that compares
function number(version,    part) {
	split(version, part, ".")
	return part[1] * 1000000 + part[2] * 1000 + part[3]
}

$5 !~ /^(GLOBAL|WEAK)$/ || $7 == "UND" || $8 !~ /@GLIBC_[0-9]/ { next }

{
	split($8, name, /@+GLIBC_/)
	version = number(name[2])
	if (version > number(floor) || version <= newest[name[1]])
		next
	if (!(name[1] in text))
		order[++count] = name[1]
	newest[name[1]] = version
	text[name[1]] = name[2]
	address[name[1]] = $2
	size[name[1]] = $3
	type[name[1]] = $4
}

END {
	print ".data"
	last = 1
	for (i = 1; i <= count; i++) {
		symbol = order[i]
		if (type[symbol] == "TLS")
			continue
		if (address[symbol] != address[before]) {
			printf ".skip %d\n.balign 32\n", last
			last = 0
		}
		before = symbol
		if (size[symbol] + 1 > last)
			last = size[symbol] + 1
		printf ".globl %s\n.type %s,%%%s\n.size %s,%d\n%s:\n", symbol, symbol,
			type[symbol] == "OBJECT" ? "object" : "function", symbol, size[symbol], symbol
		list[text[symbol]] = list[text[symbol]] symbol "; "
	}
	printf ".skip %d\n", last
	for (version in list)
		printf "GLIBC_%s { global: %s };\n", version, list[version] >map
	printf "" >map
}
