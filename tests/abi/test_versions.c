/* SPDX-License-Identifier: Apache-2.0 */
/* Two releases of the plugin in one job: with a wire version in common they use the highest such one, otherwise they
 * refuse each other with the reason on both sides. TEST_ANYNET_WIRE turns a copy of the plugin into another release. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nccl_net/wire.h>
#include <support/capture.h>

#include "two.h"

#define ABI   12
#define BYTES 300000

/* The copy that speaks these versions. */
static struct test_net open_release(const char *spec, int oldest, int newest)
{
	char text[32];

	snprintf(text, sizeof(text), "%d,%d", oldest - ANYNET_WIRE_OLDEST,
		 newest - ANYNET_WIRE_VERSION);
	check(!setenv("TEST_ANYNET_WIRE", text, 1));
	return open_copy(spec, ABI);
}

static void works(struct test_net *from, struct test_net *to)
{
	struct link link;

	link_between(from, to, &link);
	send_between(from, to, &link, BYTES);
	close_between(from, to, &link);
}

static void test_releases_with_a_common_version_talk_to_each_other(struct test_net *net)
{
	const int now = ANYNET_WIRE_VERSION;
	struct test_net this = open_release(net->spec, now, now);
	struct test_net next = open_release(net->spec, now, now + 1);
	struct test_net third = open_release(net->spec, now + 1, now + 3);

	works(&this, &next);
	works(&next, &this);
	works(&next, &third);
	works(&third, &next);
	check_int(capture_count(CAPTURE_WARN, NULL), 0);
	net_close(&third);
	net_close(&next);
	net_close(&this);
}

/* A connector and an acceptor without a common version: both logs say so, and the listener accepts other peers. */
static void refused(struct test_net *from, int oldest, int newest, struct test_net *to,
		    int to_oldest, int to_newest)
{
	char connector[160], acceptor[160];
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the refusal");
	struct link link;
	int ret;

	snprintf(connector, sizeof(connector),
		 "speaks wire versions %d to %d, this process %d to %d: install", to_oldest,
		 to_newest, oldest, newest);
	snprintf(acceptor, sizeof(acceptor),
		 "it speaks wire version %d, this process %d to %d: install",
		 newest < to_oldest ? newest : oldest, to_oldest, to_newest);
	capture_forget();
	link_listen(to, &link);
	while (!(ret = driver_connect(from->driver, from->ctx, from->dev, link_copy(&link),
				      &link.send)) &&
	       !link.send) {
		check_that(!link_accept_step(to, &link), "it is connected");
		deadline_turn(&deadline);
	}
	check(ret && !link.send);
	while (!capture_count(CAPTURE_WARN, acceptor)) {
		link_accept_step(to, &link);
		deadline_turn(&deadline);
	}
	check_that(capture_count(CAPTURE_WARN, connector) == 1, "the connector does not say '%s'",
		   connector);
	check_ok(driver_close_listen(to->driver, link.listener));
	works(to, to);
}

static void test_releases_with_a_secret_talk_to_each_other(struct test_net *net)
{
	char path[] = "/tmp/anynet-test-XXXXXX";
	int fd = mkstemp(path);

	check(fd >= 0 && write(fd, "a secret of 32 bytes or some more", 33) == 33 &&
	      !fchmod(fd, 0600));
	close(fd);
	check(!setenv("ANYNET_SECRET_FILE", path, 1));
	test_releases_with_a_common_version_talk_to_each_other(net);
	check(!unlink(path));
}

static void test_releases_without_a_common_version_say_so(struct test_net *net)
{
	const int now = ANYNET_WIRE_VERSION;
	struct test_net this = open_release(net->spec, now, now);
	struct test_net future = open_release(net->spec, now + 2, now + 3);

	capture_allow_warn();
	refused(&this, now, now, &future, now + 2, now + 3);
	refused(&future, now + 2, now + 3, &this, now, now);
	works(&this, &this);
	net_close(&future);
	net_close(&this);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "releases with a common version talk to each other",
		  test_releases_with_a_common_version_talk_to_each_other, .unopened = true,
		  .settings = { "ANYNET_TCP_CONNECTIONS=4" } },
		{ "releases with a secret talk to each other",
		  test_releases_with_a_secret_talk_to_each_other, .unopened = true },
		{ "releases without a common version say so",
		  test_releases_without_a_common_version_say_so, .unopened = true },
	};

	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
