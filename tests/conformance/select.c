/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL_NET on a host without usable verbs: the name filters of all releases accept the plugin for every value that it
 * serves (net-api.md §2.4, §2.5), and for no other. */
#include <support/capture.h>
#include <support/flow.h>
#include <support/link.h>
#include <support/nccl_rules.h>

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* In the environment before the plugin is loaded; NULL = unset. */
static void set_filter(const char *value)
{
	if (value)
		setenv("NCCL_NET", value, 1);
	else
		unsetenv("NCCL_NET");
	/* Only NCCL_NET decides; verbs are disabled, whatever this host has. */
	unsetenv("ANYNET_TRANSPORT");
	setenv("NCCL_IB_DISABLE", "1", 1);
}

static void exchange(struct test_net *net)
{
	unsigned char from[1000] = "by way of the chosen net", to[1000];
	struct link link;

	link_open(net, &link);
	check_int(link_exchange(net, &link, from, sizeof(from), to, sizeof(to)), sizeof(from));
	check(!memcmp(from, to, sizeof(from)));
	link_close(net, &link);
}

/* Every release that uses this version of the net API. */
static void check_filter(struct test_net *net, const char *filter, bool wanted)
{
	struct nccl_release release;
	int tried = 0;

	if (net_is_builtin(net))
		check_skip("names are the external plugin's business");
	set_filter(filter);
	capture_allow_warn();
	for (size_t i = 0; nccl_release(i, &release); i++) {
		struct nccl_choice choice;

		if (release.abi_newest != net->abi)
			continue;
		tried++;
		nccl_choose(&release, net->spec, filter, capture_logger, &choice);
		check_that(!choice.refused == wanted, "NCCL %s, NCCL_NET=%s, name %s: %s",
			   release.version, filter ? filter : "(unset)", choice.name,
			   choice.refused ? choice.refused : "used");
		if (wanted) {
			struct test_net chosen = { .spec = net->spec,
						   .abi = net->abi,
						   .driver = choice.driver,
						   .ctx = choice.ctx };
			exchange(&chosen);
			check_ok(driver_finalize(choice.driver, choice.ctx));
		}
		driver_close(choice.driver);
	}
	check(tried);
}

static void unset_selects_the_plugin(struct test_net *net)
{
	check_filter(net, NULL, true);
}

static void empty_selects_the_plugin(struct test_net *net)
{
	check_filter(net, "", true);
}

static void ib_selects_the_plugin(struct test_net *net)
{
	check_filter(net, "IB", true);
	check(capture_count(CAPTURE_WARN, "IB") > 0); /* IB is requested, TCP is used: a log line says so */
}

static void ib_in_lower_case_selects_the_plugin(struct test_net *net)
{
	check_filter(net, "ib", true);
}

static void socket_selects_the_plugin(struct test_net *net)
{
	check_filter(net, "Socket", true);
	check_int(capture_count(CAPTURE_WARN, NULL), 0);
}

static void anynet_selects_the_plugin(struct test_net *net)
{
	check_filter(net, "anynet", true);
	check_int(capture_count(CAPTURE_WARN, NULL), 0);
}

static void another_name_does_not_select_the_plugin(struct test_net *net)
{
	check_filter(net, "other", false);
}

static void a_part_of_a_name_does_not_select_the_plugin(struct test_net *net)
{
	check_filter(net, "IBext", false);
}

/* A shim keeps the pointer of its first look-up: neither the pointer nor the text may change. */
static void the_name_stays_what_it_was_at_the_load(struct test_net *net)
{
	char err[512], text[64] = "";

	if (net_is_builtin(net))
		check_skip("names are the external plugin's business");
	set_filter("iB");
	capture_allow_warn();
	struct driver_net *first = driver_open(net->spec, net->abi, err, sizeof(err));
	check_that(first, "%s", err);
	const char *name = driver_name(first);
	strncpy(text, name, sizeof(text) - 1);
	check(!strcasecmp(text, "iB"));
	net_open(net);
	check(driver_name(net->driver) == name);
	check(!strcmp(text, name));
	net_close(net);
	check(!strcmp(text, name));
	driver_close(first);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "unset_selects_the_plugin", unset_selects_the_plugin, .unopened = true },
		{ .name = "empty_selects_the_plugin", empty_selects_the_plugin, .unopened = true },
		{ .name = "ib_selects_the_plugin", ib_selects_the_plugin, .unopened = true },
		{ .name = "ib_in_lower_case_selects_the_plugin", ib_in_lower_case_selects_the_plugin, .unopened = true },
		{ .name = "socket_selects_the_plugin", socket_selects_the_plugin, .unopened = true },
		{ .name = "anynet_selects_the_plugin", anynet_selects_the_plugin, .unopened = true },
		{ .name = "another_name_does_not_select_the_plugin",
		  another_name_does_not_select_the_plugin,
		  .unopened = true },
		{ .name = "a_part_of_a_name_does_not_select_the_plugin",
		  a_part_of_a_name_does_not_select_the_plugin,
		  .unopened = true },
		{ .name = "the_name_stays_what_it_was_at_the_load",
		  the_name_stays_what_it_was_at_the_load,
		  .unopened = true },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
