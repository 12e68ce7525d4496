/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every release of NCCL finds the built plugin on this host, accepts it and gets a network: by the names that it looks
 * for in LD_LIBRARY_PATH, with only NCCL_NET set. The meaning of each value of NCCL_NET is tested in the conformance
 * suite (select.c).
 */
#include <stdlib.h>

#include <support/capture.h>
#include <support/harness.h>
#include <support/nccl_rules.h>
#include <support/peer.h>

struct offer {
	const char *spec;
	const struct nccl_release *release;
	const char *nccl_net;
};

/* Variables of the user; nothing that the other tests need. */
static void set_environment(const char *nccl_net)
{
	unsetenv("ANYNET_TRANSPORT");
	unsetenv("NCCL_SOCKET_IFNAME");
	unsetenv("NCCL_NET");
	if (nccl_net)
		setenv("NCCL_NET", nccl_net, 1);
}

static void must_be_taken(int fd, void *arg)
{
	const struct offer *offer = arg;
	const struct nccl_release *release = offer->release;
	struct nccl_choice choice;

	(void)fd;
	set_environment(offer->nccl_net);
	capture_allow_warn();
	nccl_choose(release, offer->spec, offer->nccl_net, capture_logger, &choice);
	check_that(choice.driver, "NCCL %s finds no table in %s", release->version, offer->spec);
	check_int(driver_abi(choice.driver), release->abi_newest);
	check_that(!choice.refused, "NCCL %s refuses '%s': %s", release->version, choice.name,
		   choice.refused);
	check(choice.device_count > 0);
	check_ok(driver_finalize(choice.driver, choice.ctx));
	driver_close(choice.driver);
	capture_check();
}

/* Each release loads it in its own process. */
static void in_every_release(const char *spec, const char *nccl_net)
{
	struct nccl_release release;

	for (size_t i = 0; nccl_release(i, &release); i++) {
		struct offer offer = { spec, &release, nccl_net };
		struct peer peer;

		peer_start(&peer, must_be_taken, &offer);
		peer_wait_ok(&peer);
	}
}

static void test_default_name(struct test_net *net)
{
	(void)net;
	in_every_release("libnccl-net.so", "IB");
}

/* NCCL_NET_PLUGIN=anynet (net-api.md §2.1). */
static void test_plugin_name(struct test_net *net)
{
	(void)net;
	in_every_release("libnccl-net-anynet.so", "IB");
}

static void test_path(struct test_net *net)
{
	in_every_release(net->spec, "IB");
	in_every_release(net->spec, "Socket");
	in_every_release(net->spec, NULL);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "by the default name", test_default_name, .unopened = true },
		{ "by NCCL_NET_PLUGIN=anynet", test_plugin_name, .unopened = true },
		{ "by its path", test_path, .unopened = true },
	};

	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
