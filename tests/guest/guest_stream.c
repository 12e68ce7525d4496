/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A verified stream each way between two jobs in existing network namespaces, as made by ip-netns(8):    guest_stream
 * NET SECONDS REST BYTES NETNS NETNS IFNAME [SETTING=VALUE …]  The streams run for SECONDS, pause for REST seconds
 * while receives wait, and continue. BYTES is the message size; 0 = mixed sizes up to 4 MiB. Prints the transferred
 * data; the plugin's log goes to stderr. Fails if a byte is wrong, if something is not done in time, if the plugin
 * warns, or if it dials again during the pause: a live peer must not be taken for dead, however bad the path. One
 * connection in four may be replaced then: if there is another path, two lost heartbeats in a row are a reason to use
 * it.
 */
#include <errno.h>
#include <faults/duo.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support/check.h>

#define NEWEST_ABI  12
#define NETNS_PLACE "/run/netns"
#define PATH_BYTES  128
#define LINE_BYTES  512
#define RESTING     4     /* receives that wait meanwhile */
#define REPLACED    4     /* of this many connections one may be replaced meanwhile */
#define AWAKE       8     /* messages that must arrive after a pause … */
#define AWAKE_MS    60000 /* … within this time */

enum {
	SELF,
	NET,
	SECONDS,
	REST,
	BYTES,
	NETNS,
	NETNS_PEER,
	IFNAME,
	SETTINGS
};

static int netns_open(const char *name)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), NETNS_PLACE "/%s", name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	check_that(fd >= 0, "%s: %s", path, strerror(errno));
	return fd;
}

static struct job_plan plan_of(int argc, char **argv)
{
	struct job_plan plan = {
		.net = argv[NET],
		.abi = NEWEST_ABI,
		.streams = { 1, 1 },
		.bytes = strtoul(argv[BYTES], NULL, 10),
		.seed = 1,
		.print = true,
		.netns = { netns_open(argv[NETNS]), netns_open(argv[NETNS_PEER]) },
		.ifname = argv[IFNAME],
	};

	check(argc - SETTINGS <= SETTINGS_MAX);
	for (int i = SETTINGS; i < argc; i++)
		plan.settings[i - SETTINGS] = argv[i];
	return plan;
}

struct connections {
	long dialled, standing; /* counted by both ends, summed */
};

/* Sockets of the jobs: their namespaces have no others. */
static struct connections connections_of(const struct duo *duo)
{
	struct connections sum = { 0, 0 };
	char line[LINE_BYTES];
	long dialled, standing;

	for (int side = 0; side < 2; side++) {
		snprintf(line, sizeof(line), "/proc/%d/net/snmp", (int)duo->pids[side]);
		FILE *file = fopen(line, "re");
		check_that(file, "%s: %s", line, strerror(errno));
		while (fgets(line, sizeof(line), file)) {
			if (sscanf(line, "Tcp: %*d %*d %*d %*d %ld %*d %*d %*d %ld", &dialled,
				   &standing) != 2)
				continue;
			sum.dialled += dialled;
			sum.standing += standing;
		}
		fclose(file);
	}
	return sum;
}

/* Nothing is sent, and both wait for the other: only heartbeats show that the peer lives. */
static void rest(struct duo *duo, int ms)
{
	atomic_store(&duo->shared->ahead, RESTING);
	duo_hold(duo);
	struct connections before = connections_of(duo);
	duo_run(duo, ms);
	long dialled = connections_of(duo).dialled - before.dialled;
	if (dialled > before.standing / 2 / REPLACED)
		duo_failed(duo, "somebody took the other one's rest for the end: %ld dialled",
			   dialled);
	atomic_store(&duo->shared->ahead, 0);
	duo_go(duo);
	duo_move(duo, AWAKE, AWAKE_MS);
	duo_reset_stall(duo);
}

int main(int argc, char **argv)
{
	char what[LINE_BYTES];
	struct duo duo;

	if (argc < SETTINGS) {
		fprintf(stderr,
			"usage: %s NET SECONDS REST BYTES NETNS NETNS IFNAME [SETTING=VALUE...]\n",
			argv[SELF]);
		return 2;
	}
	struct job_plan plan = plan_of(argc, argv);
	duo_start(&duo, &plan);
	long dialled = connections_of(&duo).dialled;
	duo_run(&duo, atoi(argv[SECONDS]) * 1000);
	if (atoi(argv[REST]))
		rest(&duo, atoi(argv[REST]) * 1000);
	duo_hold(&duo);
	if (duo_warns(&duo, 0, NULL) || duo_warns(&duo, 1, NULL))
		duo_failed(&duo, "the plugin warns without a reason to");
	snprintf(what, sizeof(what), "%ld connections replaced",
		 connections_of(&duo).dialled - dialled);
	duo_finish(&duo, what);
	return 0;
}
