#compdef anynet
# SPDX-License-Identifier: Apache-2.0
# zsh completion for anynet. It knows no command and no option by itself: it asks the tool.

_anynet() {
	local tool=$words[1] line
	local -a found
	if (( CURRENT == 2 )); then
		found=(${(f)"$($tool help 2>/dev/null | sed -n 's/^  \([a-z]\{1,\}\) *\(.*\)/\1:\2/p')"})
		_describe command found
	elif [[ $words[CURRENT] == -* ]]; then
		found=(${(f)"$($tool help $words[2] 2>/dev/null | grep -oE -- '--[a-z-]+')"})
		compadd -a found
	else
		_files
	fi
}
_anynet "$@"
