#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The findings of `anynet check`: check.sh CASE BUILD_DIR. Each case (cases/) plants a fault in a file tree, the
# environment or a network namespace, and expects its cause and its fix, by the finding's id. Exit 77 = skipped.
set -uo pipefail

# Runs in a separate network namespace, if possible: the interfaces of this host would change the findings.
if [ -z "${CHECK_APART-}" ]; then
	for user in "" -r; do
		# shellcheck disable=SC2086
		unshare -n $user true 2>/dev/null && CHECK_APART=1 exec unshare -n $user "$0" "$@"
	done
else
	PATH=$PATH:/sbin:/usr/sbin ip link set lo up
fi

case=${1:?} build=${2:?}
tool=$build/tools/anynet
plugin=$build/libnccl-net.so
fakes=$build/tests/fakes/files
work=$(mktemp -d)
root=$work/root
trap 'rm -rf "$work"' EXIT

# shellcheck source=tests/tool/check/tree.sh
. "$(dirname "$0")/tree.sh"

for file in "$(dirname "$0")"/cases/*.sh; do
	# shellcheck source=/dev/null
	. "$file"
done
declare -F "case_$case" >/dev/null || {
	echo "no case $case"
	exit 1
}
"case_$case"
exit 0
