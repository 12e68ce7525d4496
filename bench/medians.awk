#!/usr/bin/awk -f
# SPDX-License-Identifier: Apache-2.0
# From the CSV of net_bench: the medians over the rounds of one figure, one block per net for
# gnuplot ("index"), rows "bytes comms ways metric value". Usage: medians.awk -v figure=lat FILE
BEGIN { FS = "," }

$1 == figure {
	key = $4 " " $5 " " $6 " " $8
	if (!(($2, key) in count)) {
		order[$2, ++rows[$2]] = key
		spec[$2] = $3
		if ($2 > nets)
			nets = $2
	}
	value[$2, key, ++count[$2, key]] = $9
}

function median(net, key,    n, i, j, t, v) {
	n = count[net, key]
	for (i = 1; i <= n; i++) {
		t = value[net, key, i]
		for (j = i; j > 1 && v[j - 1] > t; j--)
			v[j] = v[j - 1]
		v[j] = t
	}
	return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}

END {
	for (net = 1; net <= nets; net++) {
		name = spec[net]
		gsub(/"/, "", name)
		sub(/.*\//, "", name)
		printf "\"%s\"\n", name
		for (i = 1; i <= rows[net]; i++)
			print order[net, i], median(net, order[net, i])
		print "\n"
	}
}
