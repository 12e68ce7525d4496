/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the page of a run whose hosts send markup and control characters in all texts: test_cluster_page FILE.
 * cluster.sh checks the page; this program checks that it contains all of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "made_up.h"
#include "tools/cluster/judge.h"
#include "tools/cluster/print.h"
#include "tools/shared/member.h"

static const char evil[] = "</td></script><script>alert(1)</script><img src='x' "
			   "onerror=\"alert(2)\"/>&<b>\x01\x1b[31m\xef\xbf\xbf]]>--><!--";

static json_t *spoilt(void)
{
	static const char *const keys[] = { "version", "nccl", "kernel" };
	json_t *run = made_up_run(4),
	       *measured = json_object_get(made_up_link(run, 0, 1), "measured");

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		json_object_set_new(made_up_facts(run, 1), keys[i], json_string(evil));
	json_object_set_new(json_object_get(made_up_facts(run, 2), "env"), evil, json_string(evil));
	json_object_set_new(json_array_get(json_object_get(made_up_facts(run, 3), "devices"), 0),
			    "name", json_string(evil));
	json_object_set_new(made_up_host(run, 0), "address", json_string(evil));
	json_object_set_new(made_up_host(run, 0), "error", json_string(evil));
	json_object_set_new(run, "when", json_string(evil));
	json_object_set_new(made_up_link(run, 1, 2), "path", json_string(evil));
	/* One pair with a high latency, so that the heat maps have a second colour. */
	json_object_set_new(made_up_link(run, 2, 3), "us", json_real(900));
	json_object_set_new(made_up_link(run, 2, 3), "us_least", json_real(900));
	json_object_set_new(measured, "failure",
			    json_pack("{s:s, s:s}", "step", evil, "reason", evil));
	json_object_set_new(run, "findings", judge(run, NULL));
	return run;
}

/* Whether the page contains the text in its escaped form. */
static int tells(const char *page, const char *what)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	int found;

	for (const unsigned char *c = (const unsigned char *)what; *c; c++) {
		if (strchr("&<>\"'", *c))
			fprintf(out, *c == '\''  ? "&#39;"
				     : *c == '"' ? "&quot;"
				     : *c == '&' ? "&amp;"
				     : *c == '<' ? "&lt;"
						 : "&gt;");
		else if (*c < ' ')
			fputc('?', out);
		else if (*c == 0xef)
			fputc('?', out), c += 2;
		else
			fputc(*c, out);
	}
	fclose(out);
	found = strstr(page, text) != NULL;
	if (!found)
		fprintf(stderr, "not in the page: %s\n", text);
	free(text);
	return found;
}

int main(int argc, char **argv)
{
	json_t *run = spoilt(), *finding;
	char *page = NULL;
	size_t bytes, i;
	FILE *memory = open_memstream(&page, &bytes), *file = argc > 1 ? fopen(argv[1], "w") : NULL;
	int bad = !file;

	cluster_html(run, memory);
	fclose(memory);
	if (file) {
		bad |= fwrite(page, 1, bytes, file) != bytes;
		bad |= fclose(file) != 0;
	}
	json_array_foreach (json_object_get(run, "findings"), i, finding)
		bad |= !tells(page, member_text(finding, "finding"));
	bad |= i < 6;
	/* The findings stand below the verdict here, and above it in a terminal. */
	bad |= !strstr(page, "fail or hang; see the findings");
	free(page);
	json_decref(run);
	return bad;
}
