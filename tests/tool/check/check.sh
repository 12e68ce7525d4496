#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What `anynet check` finds: check.sh CASE BUILD_DIR. Each case (cases/) plants a failure in a file tree, the
# environment or a network namespace, and looks for its cause and its remedy, by the finding's id.
# Exit 77 = skipped.
set -uo pipefail

# This host's own interfaces are kept out of it, where that can be.
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
