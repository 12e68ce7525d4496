#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The page of `anynet cluster --html` in a real browser: browser.sh BUILD_DIR [SCREENSHOT.png]. Exit 77 = skipped. The
# page is that of test_cluster_page, whose hosts send markup in all texts. Chromium is driven by the WebDriver protocol.
set -uo pipefail
# shellcheck source=tests/said.sh
. "$(dirname "$0")/../../said.sh"

build=${1:?} shot=${2-}
out=$(mktemp -d)
driver=

cleanup() {
	[ -z "$driver" ] || kill "$driver" 2>/dev/null
	wait 2>/dev/null
	rm -rf "$out"
}
trap cleanup EXIT

for program in chromium chromedriver curl jq; do
	command -v "$program" >/dev/null || skip "$program is missing (packages.txt, [browser])"
done
"$build/tests/tool/cluster/test_cluster_page" "$out/page.html" || fail "no page"
chromedriver --port=0 >"$out/driver" 2>&1 &
driver=$!
until port=$(grep -oP 'started successfully on port \K[0-9]+' "$out/driver"); do
	kill -0 "$driver" 2>/dev/null || fail "chromedriver did not start: $(cat "$out/driver")"
done

# ask METHOD PATH [BODY]: the value of the driver's answer
ask() {
	curl -sS --max-time 60 -X "$1" -H 'Content-Type: application/json' ${3+-d "$3"} \
		"http://127.0.0.1:$port/$2" >"$out/answer" || fail "no answer to $1 $2"
	jq -cr .value "$out/answer"
}
# run SCRIPT: the value that it returns, as JSON
run() {
	ask POST "session/$session/execute/sync" "$(jq -n --arg script "$1" '{ script: $script, args: [] }')"
}
# is WANTED SCRIPT
is() {
	local got
	got=$(run "$2")
	[ "$got" = "$1" ] || fail "$got instead of $1: $2"
}

session=$(ask POST session "$(jq -n --arg dir "$out/profile" '{ capabilities: { alwaysMatch: { "goog:chromeOptions": {
	binary: "/usr/bin/chromium", args: [ "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
	"--window-size=1000,900", "--user-data-dir=" + $dir ] } } } }')" | jq -r .sessionId)
[ "$session" != null ] || fail "no browser: $(head -c 600 "$out/answer")"
ask POST "session/$session/url" "{ \"url\": \"file://$out/page.html\" }" >/dev/null

# All markup from hosts is shown as text, and nothing was loaded.
[ "$(ask GET "session/$session/alert/text" | jq -r .error)" = "no such alert" ] || fail "a script of a host's ran"
is 1 'return document.scripts.length'
is 0 'return document.querySelectorAll("img, b").length'
is 0 'return performance.getEntriesByType("resource").length'
is true 'return document.querySelectorAll("section.finding").length > 3'
is true 'return document.body.innerText.includes("<script>alert(1)</script>")'

# The page fits the window: wide parts scroll within themselves.
is true 'return document.documentElement.scrollWidth <= window.innerWidth'

# Heat maps have more than one colour, and readable text on it.
is true 'return new Set(Array.from(document.querySelectorAll("table:not(.sorted) td"),
	td => getComputedStyle(td).backgroundColor)).size > 2'

# Each column of each table can be sorted in both directions.
is true '
	const value = row => column => row.cells[column].textContent;
	const ordered = (table, column, up) => {
		const texts = Array.from(table.tBodies[0].rows, row => value(row)(column));
		return texts.every((text, i) => {
			if (!i) return true;
			const d = parseFloat(texts[i - 1]) - parseFloat(text);
			const order = isNaN(d) ? texts[i - 1].localeCompare(text) : d;
			return up ? order <= 0 : order >= 0;
		});
	};
	const tables = Array.from(document.querySelectorAll("table.sorted"));
	return tables.length > 0 && tables.every(table => {
		const rows = table.tBodies[0].rows.length;
		return Array.from(table.querySelectorAll("thead th")).every((th, column) => {
			const button = th.querySelector("button");
			button.click();
			if (th.getAttribute("aria-sort") !== "ascending" || !ordered(table, column, true)) return false;
			button.click();
			return th.getAttribute("aria-sort") === "descending" && ordered(table, column, false) &&
				table.querySelectorAll("[aria-sort]").length === 1 && table.tBodies[0].rows.length === rows;
		});
	});'
[ -z "$shot" ] || ask GET "session/$session/screenshot" | base64 -d >"$shot"
ask DELETE "session/$session" >/dev/null
exit 0
