# SPDX-License-Identifier: Apache-2.0
# bash completion for anynet. It knows no command and no option by itself: it asks the tool.

# _anynet_help TOOL COMMAND: its options, one per line: SHORT LONG VALUE, "-" for what there is not,
# and behind a tab what is said of it; "operands" and what it takes beside options
_anynet_help() {
	env -u ARGP_HELP_FMT "$1" "$2" --help 2>/dev/null </dev/null | awk '
		/^Usage: / { sub(/^Usage: anynet [a-z]+ ?(\[OPTION\.\.\.\])? ?/, ""); print "operands " $0 }
		match($0, /^ +(-[^ ,-],? ?)?(--[a-z_-]+(=[^ ]+)?)?( |$)/) && $1 ~ /^-/ {
			text = substr($0, RLENGTH + 1)
			sub(/^ +/, "", text)
			short = $1 ~ /^-[^-]/ ? substr($1, 1, 2) : "-"
			long = $1 ~ /^--/ ? $1 : $2 ~ /^--/ ? $2 : "-"
			value = long ~ /=/ ? long : "-"
			sub(/=.*/, "", long)
			sub(/^[^=]*=/, "", value)
			print short, long, value "\t" text
		}'
}

# _anynet_value KIND WORD TEXT: values of an option, or operands, by what the help calls them
_anynet_value() {
	case $1 in
	*FILE* | *LOG* | *SPEC*) compopt -o filenames && compgen -f -- "$2" ;;
	*DIR*) compopt -o filenames && compgen -d -- "$2" ;;
	*HOST*) compgen -A hostname -- "$2" ;;
	NAME | TYPE) compgen -W "$(sed 's/(.*//; s/,/ /g; s/ or / /g' <<<"$3")" -- "$2" ;;
	*'|'*) compgen -W "${1//|/ }" -- "$2" ;;
	esac 2>/dev/null
}

_anynet() {
	local tool=${COMP_WORDS[0]} command=${COMP_WORDS[1]:-} word=${COMP_WORDS[COMP_CWORD]}
	local before=${COMP_WORDS[COMP_CWORD - 1]} help found
	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "$(env "$tool" help 2>/dev/null |
			sed -n 's/^  \([a-z]\{1,\}\) .*/\1/p')" -- "$word")
		return
	fi
	help=$(_anynet_help "$tool" "$command")
	# --option=value comes as three words.
	[ "$word" != = ] || word=
	[ "$before" != = ] || before=${COMP_WORDS[COMP_CWORD - 2]}
	found=$(awk -v option="$before" '($1 == option || $2 == option) && $3 != "-"' <<<"$help")
	if [ -n "$found" ]; then
		mapfile -t COMPREPLY < <(_anynet_value "$(awk '{ print $3 }' <<<"$found")" "$word" "${found#*$'\t'}")
	elif [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(awk '$1 != "operands" {
			if ($1 != "-") print $1
			if ($2 != "-") print $2 }' <<<"$help")" -- "$word")
	else
		mapfile -t COMPREPLY < <(_anynet_value "$(sed -n 's/^operands //p' <<<"$help")" "$word" "")
	fi
}
complete -F _anynet anynet
