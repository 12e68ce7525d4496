# SPDX-License-Identifier: Apache-2.0
# fish completion for anynet. It knows no command and no option by itself: it asks the tool.

function __anynet_commands
	anynet help 2>/dev/null | string replace -rf '^  ([a-z]+) +(.*)' '$1\t$2'
end
function __anynet_options
	anynet help (commandline -opc)[2] 2>/dev/null | string match -ra -- '--[a-z-]+'
end
complete -c anynet -n 'test (count (commandline -opc)) -eq 1' -f -a '(__anynet_commands)'
complete -c anynet -n 'test (count (commandline -opc)) -gt 1; and string match -q -- "-*" (commandline -ct)' -f -a '(__anynet_options)'
