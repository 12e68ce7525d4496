/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads in the ranks' logs which net carried the channels, and with which API version of the
 * plugin. A run whose traffic used another way has measured something else, and fails.
 */
#include "real.h"

#include <string.h>

#include "tools/check/ranges.h"

#define OUR_NEWEST 12
#define NAME_BYTES 32

struct account {
	unsigned ours;   /* channels over the requested net */
	unsigned gdr;    /* those with buffers in GPU memory */
	unsigned users;  /* registrations of user buffers, one per connection */
	unsigned others; /* channels over anything else */
	char other[200]; /* the first such channel */
	char name[NAME_BYTES];
	int api; /* 0 = the plugin has logged no version */
	char file[300];
};

static const char *tag_of(unsigned tests)
{
	for (int i = 0; i < real_test_count; i++) {
		if (real_tests[i].alone && tests >> i & 1)
			return real_tests[i].name;
	}
	return "tests";
}

void proof_path(const struct real_options *opts, const struct real_session *which, int rank,
		char *path, size_t bytes)
{
	snprintf(path, bytes, "%s/net%d-round%d-%s-rank%d.log", opts->logs, which->net,
		 which->round, tag_of(which->tests), rank);
}

/* Parses "… anynet: version 0.1.0 file F presented as N net api v11 …". */
static void read_version(const char *line, struct account *a)
{
	const char *file = strstr(line, " file "), *as = strstr(line, " presented as ");

	a->api = 0;
	if (!file || !as || as < file ||
	    sscanf(as, " presented as %31s net api v%d", a->name, &a->api) != 2)
		return;
	file += strlen(" file ");
	snprintf(a->file, sizeof(a->file), "%.*s", (int)(as - file), file);
}

/* Parses "… Channel 00/0 : 0[0] -> 1[0] [send] via NET/anynet/0/GDRDMA". */
static void read_channel(const char *via, const char *name, struct account *a)
{
	size_t bytes = strlen(name);

	if (!strncmp(via, "NET/", 4) && !strncmp(via + 4, name, bytes) && via[4 + bytes] == '/') {
		a->ours++;
		a->gdr += strstr(via, "/GDRDMA") != NULL;
		return;
	}
	if (!a->others++)
		snprintf(a->other, sizeof(a->other), "%.*s", (int)strcspn(via, "\n"), via);
}

static int read_log(const char *path, bool builtin, struct account *a)
{
	FILE *file = fopen(path, "re");
	char line[2000];

	if (!file) {
		fprintf(stderr, "real_bench: NCCL has written no %s\n", path);
		return -GROUP_ERROR;
	}
	while (fgets(line, sizeof(line), file)) {
		const char *version = strstr(line, "anynet: version ");
		const char *via = strstr(line, " via ");

		if (version)
			read_version(version, a);
		if (via && strstr(line, "Channel "))
			read_channel(via + 5, builtin ? "Socket" : a->name, a);
		/* "… rank 0 - NET register userbuff 0x… (handle 0x…), buffSize 65537" */
		a->users += strstr(line, " - NET register userbuff ") != NULL;
	}
	fclose(file);
	return 0;
}

static int refuse(const char *path, const char *why, const char *what)
{
	fprintf(stderr, "real_bench: %s: %s%s\n", path, why, what);
	return -GROUP_ERROR;
}

/* Returns the newest API version that this NCCL and the plugin support. */
static int expected_api(const struct real_options *opts, int version)
{
	const struct release_range *range = release_range_of(version);
	int newest = opts->api_newest ? opts->api_newest : OUR_NEWEST;

	if (!range)
		return 0;
	return range->api_newest < newest ? range->api_newest : newest;
}

/* `expected`: the API version that NCCL should use. */
static int judge(const char *path, const struct account *a, bool builtin, int ranks, int expected)
{
	char text[40];

	if (builtin && a->api)
		return refuse(path,
			      "NCCL's own net was requested, but the plugin is loaded: ", a->file);
	if (!builtin && !a->api)
		return refuse(path, "no line of the plugin's: NCCL has not loaded it", "");
	if (!builtin && a->api != expected) {
		snprintf(text, sizeof(text), "v%d and not v%d", a->api, expected);
		return refuse(path, "NCCL has taken the net API ", text);
	}
	if (a->others)
		return refuse(path, "a channel goes over ", a->other);
	if (ranks > 1 && !a->ours)
		return refuse(path, "no channel goes over ", builtin ? "NET/Socket" : "the plugin");
	return 0;
}

int proof_check(const struct real_options *opts, const struct real_session *which, int version)
{
	bool builtin = opts->nets[which->net].builtin;
	struct account last = { 0 };
	unsigned channels = 0, gdr = 0, users = 0;
	char path[600];

	for (int rank = 0; rank < opts->ranks; rank++) {
		struct account a = { 0 };

		proof_path(opts, which, rank, path, sizeof(path));
		if (read_log(path, builtin, &a) ||
		    judge(path, &a, builtin, opts->ranks, expected_api(opts, version)))
			return -GROUP_ERROR;
		channels += a.ours;
		gdr += a.gdr;
		users += a.users;
		last = a;
	}
	printf("# NET/%s carried all %u channel ends of %d ranks", builtin ? "Socket" : last.name,
	       channels, opts->ranks);
	if (gdr)
		printf(", %u of them with buffers in GPU memory", gdr);
	if (users)
		printf(", and user buffers registered with it %u times", users);
	if (!builtin)
		printf("; net API v%d of %s", last.api, last.file);
	printf(" (%s)\n", path);
	return 0;
}
