/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A verified stream each way between two jobs, on RoCE devices of the kernel's software RDMA made by rxe.sh, while
 * wires are cut:    guest_ib NET SCENARIO [SETTING=VALUE …]  Job 0 has rxe0 and rxe2, job 1 rxe1 and rxe3; wires 0 and
 * 1 join them, wire 2 has no device. Prints figures; the plugin's log goes to stderr. Fails if a byte is wrong, if
 * something is not done in time, or if data uses the wrong path.
 */
#include <faults/duo.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support/check.h>

#define NEWEST_ABI 12
#define TEXT_BYTES 200
#define BYTES      16384 /* message size: the emulated processors transfer some MB/s */
#define BY_VERBS   300   /* packets of a device, more than anything but the stream sends */
#define BY_TCP     100   /* messages of each stream: over queue pairs each is several packets */
#define WAY_MS     60000 /* time for data to use the expected path */

static uint64_t packets(const char *device)
{
	char path[TEXT_BYTES];
	uint64_t count = 0;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/sent_pkts",
		 device);
	FILE *file = fopen(path, "re");
	check_that(file, "%s cannot be read", path);
	check_int(fscanf(file, "%" SCNu64, &count), 1);
	fclose(file);
	return count;
}

static uint64_t packets_of_all(void)
{
	return packets("rxe0") + packets("rxe1") + packets("rxe2") + packets("rxe3");
}

static void wire(int number, const char *state)
{
	char command[TEXT_BYTES];

	snprintf(command, sizeof(command), "bash -c '. tests/guest/rxe.sh; wire_set %d %s'", number,
		 state);
	check_that(!system(command), "%s", command);
}

/* Waits until the device carries the jobs' data. */
static void await_device(struct duo *duo, const char *device)
{
	struct deadline deadline = deadline_in(WAY_MS, "data to go through a device");
	uint64_t before = packets(device);

	while (packets(device) < before + BY_VERBS) {
		duo_turn(duo);
		deadline_turn(&deadline);
	}
}

static void check_not_by_verbs(struct duo *duo)
{
	uint64_t before = packets_of_all(), messages = duo_messages(duo);

	duo_move(duo, BY_TCP, WAY_MS);
	messages = duo_messages(duo) - messages;
	check_that(packets_of_all() - before < messages, "data goes through queue pairs");
}

/* Cuts a wire: the stall is the longest wait of the oldest request. The kernel may be slow to run the command;
 * meanwhile packets are lost without a report. */
static double stall_ms(struct duo *duo, int number)
{
	uint64_t before;

	duo_reset_stall(duo);
	before = real_ns();
	wire(number, "down");
	printf("to pull wire %d took the kernel %.0f ms, messages stall already for %.0f ms\n",
	       number, ms_of(real_ns() - before), ms_of(duo_stall_ns(duo)));
	duo_run(duo, 3000);
	return ms_of(duo_stall_ns(duo));
}

static double undisturbed_ms(struct duo *duo)
{
	duo_reset_stall(duo);
	duo_run(duo, 3000);
	return ms_of(duo_stall_ns(duo));
}

static void wire_comes_back(struct duo *duo, int number, const char *device)
{
	uint64_t before;

	wire(number, "up");
	before = real_ns();
	await_device(duo, device);
	printf("wire %d is back: in use again after %.0f ms\n", number, ms_of(real_ns() - before));
}

static void one_of_two(struct duo *duo)
{
	await_device(duo, "rxe0");
	double calm = undisturbed_ms(duo);
	double stall = stall_ms(duo, 0);
	await_device(duo, "rxe2");
	printf("one of two wires pulled: stall %.0f ms (longest wait before: %.0f ms)\n", stall,
	       calm);
	wire_comes_back(duo, 0, "rxe0");
}

static void only_tcp(struct duo *duo)
{
	wire(1, "down");
	await_device(duo, "rxe0");
	double calm = undisturbed_ms(duo);
	double stall = stall_ms(duo, 0);
	check_not_by_verbs(duo);
	printf("only TCP left: stall %.0f ms (longest wait before: %.0f ms)\n", stall, calm);
	wire_comes_back(duo, 1, "rxe2");
	wire_comes_back(duo, 0, "rxe0");
}

static void lossy(struct duo *duo)
{
	await_device(duo, "rxe0");
	check(!system(
		"for i in 0 1; do tc qdisc add dev eth$i root netem loss 1% || exit 1; done"));
	duo_run(duo, 10000);
	check(!system("for i in 0 1; do tc qdisc del dev eth$i root || exit 1; done"));
	printf("1 %% of packets lost\n");
	await_device(duo, "rxe0");
}

/* One of them has no verbs: both log it. */
static void masked(struct duo *duo)
{
	check_not_by_verbs(duo);
	printf("one without verbs: over TCP\n");
}

static void steady(struct duo *duo)
{
	await_device(duo, "rxe0");
	printf("data goes through queue pairs\n");
}

static void killed(struct duo *duo)
{
	await_device(duo, "rxe0");
	duo_kill(duo, 1);
	printf("peer killed: error after %.0f ms\n", ms_of(duo_await_error(duo, 0, WAY_MS)));
}

static const struct {
	const char *name;
	void (*run)(struct duo *duo);
	const char *setting; /* of job 1 */
} scenarios[] = {
	{ "one-of-two", one_of_two, NULL },
	{ "only-tcp", only_tcp, NULL },
	{ "lossy", lossy, NULL },
	{ "masked", masked, "NCCL_IB_DISABLE=1" },
	{ "killed", killed, NULL },
	{ "steady", steady, NULL },
	{ "at-one", steady, "ANYNET_IB_CM=1" },
};

int main(int argc, char **argv)
{
	struct job_plan plan = {
		.abi = NEWEST_ABI,
		.streams = { 1, 1 },
		.bytes = BYTES,
		.seed = 1,
		.print = true,
		.netns = { -1, -1 },
		.settings = { "ANYNET_TRANSPORT=auto" },
		.own_settings = { { "NCCL_IB_HCA==rxe0,rxe2", "NCCL_SOCKET_IFNAME=eth0,eth2,eth4" },
				  { "NCCL_IB_HCA==rxe1,rxe3",
				    "NCCL_SOCKET_IFNAME=eth1,eth3,eth5" } },
	};
	size_t count = sizeof(scenarios) / sizeof(scenarios[0]), which = 0;
	struct duo duo;

	while (which < count && (argc < 3 || strcmp(argv[2], scenarios[which].name)))
		which++;
	if (which == count || argc - 3 > SETTINGS_MAX - 1) {
		fprintf(stderr, "usage: %s NET SCENARIO [SETTING=VALUE...]\n", argv[0]);
		return 2;
	}
	plan.net = argv[1];
	for (int i = 3; i < argc; i++)
		plan.settings[i - 2] = argv[i];
	plan.own_settings[1][2] = scenarios[which].setting;
	setvbuf(stdout, NULL, _IOLBF, 0);
	duo_start(&duo, &plan);
	scenarios[which].run(&duo);
	if (scenarios[which].run != killed)
		duo_finish(&duo, scenarios[which].name);
	return 0;
}
