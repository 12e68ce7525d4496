# SPDX-License-Identifier: Apache-2.0
# Checks the links of Markdown files. Reads all files, named relative to the working directory, and prints a line for each
# link to a file or heading that does not exist. Links to other sites are ignored. Exit 1: a link is dead, or none was found.

# The anchor that GitHub gives to a heading: lower case, no punctuation, '-' for a space, and a number if it is repeated.
function anchor(heading,    name, again) {
	name = tolower(heading)
	gsub(/\]\([^)]*\)/, "", name)
	gsub(/[^a-z0-9_ -]/, "", name)
	gsub(/ /, "-", name)
	again = repeated[FILENAME, name]++
	return name (again ? "-" again : "")
}

# The path of a link in the file `from`, relative to the working directory.
function resolve(from, path,    parts, n, i, out) {
	if (path == "")
		return from
	sub(/[^\/]*$/, "", from)
	n = split(from path, parts, "/")
	for (i = 1; i <= n; i++)
		if (parts[i] == "..")
			sub(/[^\/]*\/$/, "", out)
		else
			out = out parts[i] (i < n ? "/" : "")
	return out
}

function check(from, link,    file, fragment) {
	if (link ~ /^[a-z]+:/)
		return ""
	fragment = match(link, /#/) ? substr(link, RSTART) : ""
	file = resolve(from, substr(link, 1, length(link) - length(fragment)))
	if (system("test -e '" file "'"))
		return "no such file"
	if (fragment && !(file in files))
		return "not one of the files that are checked"
	if (fragment && !((file fragment) in headings))
		return "no such heading"
	return ""
}

FNR == 1 {
	files[FILENAME]
	fenced = 0
}
/^ *```/ { fenced = !fenced }
fenced { next }
/^#+ / {
	sub(/^#+ +/, "")
	headings[FILENAME "#" anchor($0)]
}
{
	for (; match($0, /\]\([^) ]*/); $0 = substr($0, RSTART + RLENGTH)) {
		file[links] = FILENAME
		line[links] = FNR
		link[links++] = substr($0, RSTART + 2, RLENGTH - 2)
	}
}
END {
	for (i = 0; i < links; i++) {
		fault = check(file[i], link[i])
		if (fault == "")
			continue
		print file[i] ":" line[i] ": " link[i] ": " fault
		dead++
	}
	print links + 0 " links, " dead + 0 " of them dead"
	exit dead || !links
}
