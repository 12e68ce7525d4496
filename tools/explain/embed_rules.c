/* SPDX-License-Identifier: Apache-2.0 */
/* Runs at build time: checks a rule file against its samples and writes it as C source. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rules.h"

#define BYTES_MAX (1 << 20)

static int fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	return 1;
}

static int write_source(const char *name, const char *text, size_t bytes)
{
	FILE *out = fopen(name, "w");

	if (!out)
		return fail(strerror(errno));
	fprintf(out, "/* Made from rules.txt by embed_rules. */\n#include \"rules.h\"\n\n"
		     "const unsigned char explain_rules_text[] = {");
	for (size_t i = 0; i < bytes; i++)
		fprintf(out, "%s%d,", i % 24 ? "" : "\n\t", (unsigned char)text[i]);
	fprintf(out, "\n};\n\nconst size_t explain_rules_bytes = sizeof(explain_rules_text);\n");
	return fclose(out) ? fail(strerror(errno)) : 0;
}

int main(int argc, char **argv)
{
	static char text[BYTES_MAX];
	struct rules *rules = rules_new();
	const char *why;
	FILE *in;
	size_t bytes;

	if (argc != 3)
		return fail("usage: embed_rules RULES SOURCE");
	in = fopen(argv[1], "re");
	if (!in)
		return fail(strerror(errno));
	bytes = fread(text, 1, sizeof(text), in);
	fclose(in);
	if (bytes == sizeof(text))
		return fail("more than 1 MiB of rules");
	why = rules_add(rules, text, bytes, argv[1]);
	if (!why)
		why = rules_finish(rules);
	if (!why)
		why = rules_check(rules, rules->count);
	return why ? fail(why) : write_source(argv[2], text, bytes);
}
