#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Completion offers every command of the manual page, and every option in a command's --usage.
# Usage: completion.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
export LC_ALL=C
build=${1:?} source=${2:?}
bad=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
. "$source/packaging/completion.bash"
compopt() { :; } # required for a completion that bash itself starts

# offered WORD...: the completions of the last word, sorted
offered() {
	COMP_WORDS=("$build/tools/anynet" "$@")
	COMP_CWORD=$#
	_anynet
	printf '%s\n' "${COMPREPLY[@]}" | sort -u
}

# same WHAT EXPECTED FOUND
same() {
	if [ "$2" != "$3" ]; then
		echo "FAIL: $1"
		diff <(echo "$2") <(echo "$3")
		bad=1
	fi
}

commands=$(awk '/^\.Sh DESCRIPTION/ { exit } $1 == ".Cm" { print $2 }' "$source/docs/anynet.1" | sort -u)
same "commands" "$commands" "$(offered "")"
for command in $commands; do
	usage=$("$build/tools/anynet" "$command" --usage 2>&1)
	[[ $usage == Usage:* ]] || continue
	same "long options of $command" "$(grep -oE -- '--[a-z_-]+' <<<"$usage" | sort -u)" "$(offered "$command" --)"
	same "short options of $command" "$(tr -d '\n' <<<"$usage" | grep -oE '\[-[^] =-]+\]|\[-[^]-] [^]]*\]|\[-[^]-]=[^]]*\]' |
		sed -E 's/^\[-//; s/[ =].*//; s/\]//' | grep -o . | sed 's/^/-/' | sort -u)" \
		"$(offered "$command" - | grep -v ^--)"
done
touch log.txt
mkdir logs
same "files for an operand" "$(printf 'log.txt\nlogs')" "$(offered explain lo)"
same "files for --rules" "log.txt" "$(offered explain --rules = log.)"
same "directories for -D" "logs" "$(offered top -D l)"
same "words for --pattern" "$(printf 'all_gather\nall_reduce\nalltoall')" "$(offered perf --pattern all)"
same "words for -d" "$(printf 'float\nint32')" "$(offered perf -d "")"
same "0 or 1 for --check" "$(printf '0\n1')" "$(offered perf --check =)"
# The other shells, if installed: the same commands, and the options of one.
mkdir "$work/bin"
ln -s "$build/tools/anynet" "$work/bin/anynet"
PATH=$work/bin:$PATH
options=$(anynet help pair | grep -oE -- '--[a-z-]+' | sort -u)
if command -v fish >/dev/null; then
	fish=$(printf 'source %s/packaging/completion.fish\n' "$source")
	same "commands in fish" "$commands" "$(fish -c "$fish; complete -C 'anynet '" | cut -f1 | sort -u)"
	same "options in fish" "$options" "$(fish -c "$fish; complete -C 'anynet pair --'" | cut -f1 | sort -u)"
else
	echo "completion: no fish here"
fi
if command -v zsh >/dev/null; then
	zsh -n "$source/packaging/completion.zsh" || bad=1
	# _describe and compadd print their arguments.
	same "commands in zsh" "$commands" "$(zsh -fc '_describe() { print -l ${found%%:*}; }; words=(anynet ""); CURRENT=2
		. '"$source"'/packaging/completion.zsh' | sort -u)"
	same "options in zsh" "$options" "$(zsh -fc 'compadd() { print -l -- $found; }; words=(anynet pair --); CURRENT=3
		. '"$source"'/packaging/completion.zsh' | sort -u)"
else
	echo "completion: no zsh here"
fi
[ "$bad" = 0 ] && echo "completion: as it should be"
exit "$bad"
