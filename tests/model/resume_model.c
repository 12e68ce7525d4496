/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the resume protocol with the model of model.h. Without arguments it explores the configurations below
 * (--quick: the small ones, for sanitizers); with --mutations it explores each deliberate fault, which must be found;
 * with options one configuration, for longer runs. Exit 0: as expected; 1: not.
 */
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "search.h"

#define STATES_MAX   20000000u /* of 24 bytes, and 4 to 11 for the hash table */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Each has one property that the others lack. */
static const struct {
	bool quick;
	struct model_config cfg;
} configs[] = {
	{ true,
	  { "one message, three cuts", "2", NULL, .slots = 1, .units = 4, .round = 1, .posted = 1,
	    .in_flight = 3, .breaks = 3, .replays = 1, .close = true } },
	{ true,
	  { "checksums: no part", "2,c", NULL, .slots = 2, .units = 2, .round = 0, .posted = 2,
	    .in_flight = 3, .breaks = 2, .replays = 1 } },
	{ true,
	  { "kept when handed over", "k2,c", NULL, .slots = 2, .units = 2, .round = 1, .posted = 1,
	    .in_flight = 3, .breaks = 2, .replays = 1, .close = true } },
	{ false,
	  { "kept, two tags", "k1,1b", "ba", .slots = 2, .units = 1, .round = 1, .posted = 0,
	    .in_flight = 3, .breaks = 2, .replays = 1, .close = true } },
	{ false,
	  { "a slot for each", "c,1,c", NULL, .slots = 3, .units = 1, .round = 1, .posted = 3,
	    .in_flight = 3, .breaks = 2, .replays = 1 } },
	{ false,
	  { "one slot", "1,c,1,c", NULL, .slots = 1, .units = 1, .round = 1, .posted = 4,
	    .in_flight = 3, .breaks = 2, .replays = 1, .close = true } },
	{ false,
	  { "parts rounded", "2,1", NULL, .slots = 2, .units = 3, .round = 2, .posted = 2,
	    .in_flight = 3, .breaks = 2, .replays = 1, .close = true } },
	{ false,
	  { "posted late", "c,2,c", NULL, .slots = 2, .units = 1, .round = 1, .posted = 1,
	    .in_flight = 3, .breaks = 2, .replays = 1 } },
	{ false,
	  { "two tags", "1,1b,1", "aba", .slots = 2, .units = 1, .round = 1, .posted = 1,
	    .in_flight = 3, .breaks = 2, .replays = 1 } },
	{ false,
	  { "two tags, unexpected", "c,1b", "ba", .slots = 2, .units = 1, .round = 1, .posted = 1,
	    .in_flight = 3, .breaks = 2, .replays = 0, .close = true } },
	{ false,
	  { "two tags, nothing posted", "1,1b", "ba", .slots = 2, .units = 1, .round = 1,
	    .posted = 0, .in_flight = 3, .breaks = 2, .replays = 1, .close = true } },
	{ false,
	  { "closing", "c,1", NULL, .slots = 2, .units = 1, .round = 1, .posted = 2, .in_flight = 3,
	    .breaks = 2, .replays = 1, .close = true } },
	{ false,
	  { "three cuts", "c,1", NULL, .slots = 2, .units = 1, .round = 1, .posted = 2,
	    .in_flight = 3, .breaks = 3, .replays = 1 } },
};

/* Configurations for faults: mutations.def assigns them. */
static const struct model_config faulty[] = {
	[FAULTY_SLOTS] = { "", "c,2,c", NULL, .slots = 2, .units = 2, .round = 1, .posted = 3,
			   .in_flight = 3, .breaks = 2, .replays = 1 },
	[FAULTY_TAGS] = { "", "1,1b,c", NULL, .slots = 2, .units = 1, .round = 1, .posted = 3,
			  .in_flight = 3, .breaks = 2, .replays = 1 },
	[FAULTY_PARTS] = { "", "1", NULL, .slots = 1, .units = 3, .round = 1, .posted = 1,
			   .in_flight = 3, .breaks = 2, .replays = 1 },
	[FAULTY_CLOSE] = { "", "2,c", NULL, .slots = 2, .units = 3, .round = 2, .posted = 2,
			   .in_flight = 3, .breaks = 2, .replays = 1, .close = true },
};

static const struct {
	const char *name;
	unsigned where;
	const char *text;
} mutations[MUTATION_COUNT] = {
	[MUTATION_NONE] = { "none", 0, "" },
#define MUTATION(id, name, where, text) [MUTATION_##id] = { name, FAULTY_##where, text },
#include "mutations.def"
#undef MUTATION
};

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* `name` is for the printed line. */
static struct search_result run(struct model_config cfg, const char *name, uint64_t limit,
				bool trace)
{
	double start = seconds();
	struct search_result result;

	if (!model_config_parse(&cfg)) {
		fprintf(stderr, "'%s' with these numbers is not understood\n", cfg.messages);
		exit(2);
	}
	result = search(&cfg, limit, trace);
	printf("%-24s %8llu states %9llu steps, %2u deep, %5.1f s%s%s\n", name,
	       (unsigned long long)result.states, (unsigned long long)result.steps, result.depth,
	       seconds() - start, result.fault ? ": " : "", result.fault ? result.fault : "");
	fflush(stdout);
	return result;
}

static int run_configs(bool quick)
{
	uint32_t taken = 1u << STEP_SWITCH, all = (1u << STEP_KINDS) - 1; /* SWITCH is that of a fault */
	bool good = true;

	for (size_t i = 0; i < COUNT(configs); i++) {
		struct search_result result;

		if (quick && !configs[i].quick)
			continue;
		result = run(configs[i].cfg, configs[i].cfg.name, STATES_MAX, true);
		taken |= result.taken;
		good = good && !result.fault;
	}
	if (!quick && taken != all) {
		printf("not every kind of step was taken: %x\n", taken);
		good = false;
	}
	return good ? 0 : 1;
}

static int run_mutations(void)
{
	bool good = true;

	for (int i = MUTATION_NONE + 1; i < MUTATION_COUNT; i++) {
		struct model_config cfg = faulty[mutations[i].where];

		cfg.mutation = (enum mutation)i;
		if (run(cfg, mutations[i].name, STATES_MAX, false).fault)
			continue;
		printf("%s has not been found: %s\n", mutations[i].name, mutations[i].text);
		good = false;
	}
	return good ? 0 : 1;
}

/* --- one configuration --- */

static enum mutation mutation_named(const char *name)
{
	for (int i = 0; i < MUTATION_COUNT; i++)
		if (!strcmp(mutations[i].name, name))
			return (enum mutation)i;
	fprintf(stderr, "no mutation '%s'; there are:\n", name);
	for (int i = MUTATION_NONE + 1; i < MUTATION_COUNT; i++)
		fprintf(stderr, "  %-18s %s\n", mutations[i].name, mutations[i].text);
	exit(2);
}

static int usage(const char *program)
{
	fprintf(stderr,
		"usage: %s [--quick]     the configurations of the test\n"
		"       %s --mutations   every deliberate fault has to be found\n"
		"       %s OPTION…       one configuration:\n"
		"  -m LIST  messages: c copied, 1 to 3 that many chunks, k before it: kept, then b for tag b: c,2b,k1\n"
		"  -r TAGS  of the posted receives in order, if not that of the messages: aba\n"
		"  -s N     slots            -u N  units in a chunk    -R N  part is rounded to\n"
		"  -p N     receives posted at the beginning           -f N  frames in flight\n"
		"  -b N     connections cut  -o N  old hellos          -c    both sides close\n"
		"  -l N     states at most   -M NAME  mutation         -t    print the way to a fault\n",
		program, program, program);
	return 2;
}

static unsigned number(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*end || end == text || value > UINT32_MAX) {
		fprintf(stderr, "'%s' is no number\n", text);
		exit(2);
	}
	return (unsigned)value;
}

/* The field that an option with a number sets, or NULL. */
static unsigned *number_field(struct model_config *cfg, int option)
{
	switch (option) {
	case 's':
		return &cfg->slots;
	case 'u':
		return &cfg->units;
	case 'R':
		return &cfg->round;
	case 'p':
		return &cfg->posted;
	case 'f':
		return &cfg->in_flight;
	case 'b':
		return &cfg->breaks;
	case 'o':
		return &cfg->replays;
	default:
		return NULL;
	}
}

static bool take_option(struct model_config *cfg, int option)
{
	unsigned *field = number_field(cfg, option);

	if (field)
		*field = number(optarg);
	else if (option == 'm')
		cfg->messages = optarg;
	else if (option == 'r')
		cfg->receives = optarg;
	else if (option == 'c')
		cfg->close = true;
	else if (option == 'M')
		cfg->mutation = mutation_named(optarg);
	else
		return false;
	return true;
}

static int run_one(int argc, char **argv)
{
	struct model_config cfg = faulty[FAULTY_SLOTS];
	unsigned limit = STATES_MAX;
	bool trace = false;
	int option;

	while ((option = getopt(argc, argv, "m:r:s:u:R:p:f:b:o:cM:tl:")) != -1) {
		if (option == 't')
			trace = true;
		else if (option == 'l')
			limit = number(optarg);
		else if (!take_option(&cfg, option))
			return usage(argv[0]);
	}
	return run(cfg, cfg.messages, limit, trace).fault ? 1 : 0;
}

int main(int argc, char **argv)
{
	if (argc == 1 || !strcmp(argv[1], "--quick"))
		return run_configs(argc > 1);
	if (!strcmp(argv[1], "--mutations"))
		return run_mutations();
	return run_one(argc, argv);
}
