# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Planted hosts for `anynet check`: files below $root, interfaces in a namespace, variables. Sourced by check.sh and
# hosts.sh, which set $tool, $plugin, $fakes (libraries to plant), $work and $root.

fail() {
	echo "FAIL: $*"
	cat "$work/json" 2>/dev/null
	exit 1
}

# A tree with the names of the libraries that plugins need; the files are dummies.
mkdir -p "$root/lib64" "$root/etc" "$root/opt/lib" "$root/sys/class"
objdump -p "$plugin" "$fakes"/libfake_*.so | awk '$1 == "NEEDED" && $2 !~ /nccl/ { print $2 }' | sort -u |
	while read -r name; do echo x >"$root/lib64/$name"; done

# plant FILE PATH: copies a file into the tree; write PATH TEXT...: creates a file with these lines
plant() {
	mkdir -p "$root$(dirname "$2")"
	cp "$1" "$root$2"
}
write() {
	local path=$root$1
	shift
	mkdir -p "$(dirname "$path")"
	printf '%s\n' "$@" >"$path"
}

# device PATH VENDOR CLASS NODE: a PCI device
device() {
	write "$1/vendor" "$2"
	write "$1/class" "$3"
	write "$1/numa_node" "$4"
	mkdir -p "$root/sys/bus/pci/devices"
	ln -s "$1" "$root/sys/bus/pci/devices/$(basename "$1")"
}

# Runs the tool with only these variables, through $as if that is set; its status is in $status.
as= options=--all-releases
check() {
	# shellcheck disable=SC2086
	env -i PATH=/usr/bin:/bin "$@" $as "$tool" check --json --root "$root" $options >"$work/json" 2>"$work/stderr"
	status=$?
	[ -s "$work/stderr" ] && { cat "$work/stderr"; fail "something on stderr: $*"; }
	return 0
}

# "verdict|found|why|fix" of each finding with this id
findings() {
	awk -v id="$1" '
		function text(line) { sub(/^ *"[a-z]*": /, "", line); sub(/,$/, "", line); return line }
		/^      "id":/ { hit = $0 ~ "\"" id "\"" }
		/^      "level":/ { verdict = text($0) }
		/^      "finding":/ { found = text($0) }
		/^      "why":/ { why = text($0) }
		/^      "fix":/ { if (hit) print verdict "|" found "|" why "|" text($0) }
	' "$work/json"
}

# finds ID VERDICT TEXT...: a finding of this kind contains each of the texts
finds() {
	local id=$1 verdict=${2/%warn/warning} lines
	shift 2
	lines=$(findings "$id" | grep -F "\"$verdict\"|")
	[ -n "$lines" ] || fail "no $verdict with id $id"
	for text in "$@"; do
		lines=$(grep -F -- "$text" <<<"$lines") || fail "no '$text' in $id"
	done
}
finds_not() {
	[ -z "$(findings "$1")" ] || fail "there is a finding $1"
}
status_is() {
	[ "$status" = "$1" ] || fail "status $status instead of $1"
}

# Like check, in a namespace whose interfaces the commands of $1 create; lo is up.
in_namespace() {
	local commands=$1 user=
	shift
	unshare -n true 2>/dev/null || user=-r
	if ! unshare -n $user ip link set lo up 2>/dev/null; then
		echo "SKIP this process may not make a network namespace"
		exit 77
	fi
	export -f check fail
	export root work tool as options
	unshare -n $user bash -c "PATH=\$PATH:/sbin:/usr/sbin; set -e
		ip link set lo up; $commands
		set +e; check \"\$@\"; echo \$status >'$work/status'" -- "$@" || fail "in the namespace"
	status=$(cat "$work/status")
}
# The kernel reports the carrier some time after both ends are up.
nic() {
	echo "ip link add $1 type veth peer name peer_$1; ip link set peer_$1 up
		ip link set $1 up; ip addr add $2 dev $1
		until ip -br link show $1 | grep ' UP ' >/dev/null; do sleep 0.01; done;"
}

