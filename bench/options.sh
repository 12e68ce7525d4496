# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The command line of run.sh and recovery.sh, which source it with all there is in $only and their arguments. It sets
# $only, $quick (an array: --quick, or nothing), $build and $out (may be empty).

usage() {
	sed -n '/^# Usage/,/^[^#]/s/^# //p' "$0" >&2
	exit 1
}

wanted() {
	case ",$only," in
	*",$1,"*) return 0 ;;
	*) return 1 ;;
	esac
}

quick=() build='' out=''
while [ $# -gt 0 ]; do
	case $1 in
	--quick) quick=(--quick) ;;
	--only) only=${2:?}; shift ;;
	--out) out=${2:?}; shift ;;
	-*) usage ;;
	*) build=$1 ;;
	esac
	shift
done
[ -n "$build" ] || usage
