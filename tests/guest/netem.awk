# SPDX-License-Identifier: Apache-2.0
# Prints and judges one run of netem.sh (exit 0 = good). Its input is two outputs of links_counters, before and after.
# Variables: name, streams, summary (output of guest_stream) and status (its exit status), witnesses (the counters that
# must not be zero, with commas, or "-").

FILENAME == ARGV[1] { before[$1] = $1 == "Dropped" ? 0 : $2; next }
{ counted[$1] = $2 - before[$1] }

function fail(why) {
	print "FAIL: " why
	failed = 1
}

function print_run() {
	sub(/ 0 faults,/, "", summary)
	sub(/, longest call.*/, "", summary)
	printf "%-11s %d stream%s %s\n", name, streams, streams == 1 ? ": " : "s:", summary
	printf "%20s packets %d dropped %d damaged %d out of order %d twice %d, sent again %d\n", "",
		counted["TcpInSegs"], counted["Dropped"],
		counted["TcpInCsumErrors"] + counted["IpInHdrErrors"], counted["TcpExtTCPOFOQueue"],
		counted["TcpExtTCPDSACKRecv"], counted["TcpRetransSegs"]
}

END {
	print_run()
	if (status)
		fail("exit " status)
	n = split(witnesses, witness, ",")
	for (i = 1; i <= n; i++)
		if (witness[i] != "-" && !counted[witness[i]])
			fail("the network was too good: no " witness[i])
	exit failed
}
