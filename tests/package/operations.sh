#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# docs/operations.md is true: settings exist and accept the values shown. The commands and options that any document
# names exist. Usage: operations.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
export LC_ALL=C
build=${1:?} source=${2:?}
tool=$build/tools/anynet
page=$source/docs/operations.md
bad=0

fail() {
	echo "FAIL: $*"
	bad=1
}

known=$("$tool" config --json | jq -r '.settings[].name')
for name in $(grep -oE 'ANYNET_[A-Z0-9_]+' "$page" | sort -u); do
	grep -qxF "$name" <<<"$known" || fail "$name is no setting"
done
for pair in $(grep -oE 'ANYNET_[A-Z0-9_]+=[^` ,;)]+' "$page" | sort -u) \
	$(sed -nE 's/.*name: (ANYNET_[A-Z_]+), value: ([^ ]+) .*/\1=\2/p' "$page"); do
	said=$(env -i "$pair" "$tool" config 2>&1 >/dev/null)
	[[ $said == *ANYNET_SECRET_FILE*cannot\ be\ opened* || -z $said ]] || fail "$pair: $said"
done
# The prolog and the init container reject a host with errors, and no other. The prolog names the installed file.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$tool" "$work/bin/anynet"
awk '/^```sh$/ { block = ""; on = 1; next } /^```$/ { if (on && block ~ /# prolog/) printf "%s", block; on = 0 }
	on { block = block $0 "\n" }' "$page" | sed "s:/usr/local/bin/anynet:$work/bin/anynet:" >"$work/prolog"
sed -n "s/^ *command: \[sh, -c, '\(anynet check.*\)'\]$/\1/p" "$page" >"$work/init"
for script in prolog init; do
	[ -s "$work/$script" ] || fail "no $script in $page"
	env -i "PATH=$work/bin:/usr/bin:/bin" anynet check --quiet >/dev/null 2>&1
	errors=$?
	env -i "PATH=$work/bin:/usr/bin:/bin" sh "$work/$script" >/dev/null 2>&1
	[ $? = $((errors >= 2)) ] || fail "$script: this host is not as 'anynet check' says"
	said=$(env -i "PATH=$work/bin:/usr/bin:/bin" NCCL_TOPO_FILE=/no/such/file sh "$work/$script" 2>&1) &&
		fail "$script: an error is none"
	[[ $said == *error*/no/such/file* ]] || fail "$script does not say why"
done
cd "$source" || exit 1
for page in *.md docs/*.md bench/*.md; do
	while read -r _ command options; do
		for option in $options; do
			"$tool" "$command" --usage | grep -E -- "\[${option}[]=]" >/dev/null ||
				fail "$page: anynet $command has no $option"
		done
	done < <(grep -oE '(^|[^"])anynet [a-z]+( --[a-z]+)+' "$page" | sed 's/.*anynet/anynet/' | sort -u)
	for command in $(grep -oE '`anynet [a-z]+' "$page" | awk '{ print $2 }' | sort -u); do
		"$tool" help | grep "^  $command " >/dev/null || fail "$page: anynet $command is no command"
	done
done
[ "$bad" = 0 ] && echo "operations: as it should be"
exit "$bad"
