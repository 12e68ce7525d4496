#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The checks of the fake libibverbs on the kernel's software RDMA. Runs in the guest:
#
#   tests/guest/guest.sh -- tests/guest/verbs.sh BUILD_DIR
#
# As `verbs.sh link down` and `verbs.sh link up` it pulls the cable and puts it back.
set -Eeuo pipefail
trap 'echo "verbs: $BASH_COMMAND (line $LINENO) failed"' ERR
cd "$(dirname "$0")/../.."

# shellcheck source=tests/guest/rxe.sh
. tests/guest/rxe.sh
if [ "${1:-}" = link ]; then
	wire_set 0 "$2"
	exit
fi
build=${1:?usage: tests/guest/verbs.sh BUILD_DIR}
rxe_make
VERBS_LINK="tests/guest/verbs.sh link" \
	"$build/tests/fakes/verbs/selfcheck/verbs_check" "$rxe_library" rxe rxe0 rxe1
