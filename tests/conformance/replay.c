/* SPDX-License-Identifier: Apache-2.0 */
/* Somebody who has heard how a comm was set up, without a secret: what he repeats or makes up from it
 * does not disturb the comm. (With what he has heard he can take a rail over, if he changes it well
 * enough: docs/wire.md says so, and secret.c that a secret prevents it.) */
#include <support/capture.h>
#include <support/relay.h>

#include <string.h>
#include <unistd.h>

#define MESSAGE 1000000 /* bytes */

/* A standing comm, and what was said at its beginning. `other` keeps the port in use. */
struct scene {
	struct link link, other;
	struct relay *relay;
	struct relay_record records[RELAY_CONNECTIONS_MAX];
	size_t count;
	struct target target;
};

static void set_up(struct test_net *net, struct scene *scene)
{
	if (net_is_builtin(net))
		check_skip("NCCL's built-in nets have no hello");
	capture_allow_warn();
	link_listen(net, &scene->other);
	link_listen(net, &scene->link);
	stranger_target(link_handle(&scene->link), &scene->target);
	scene->relay = relay_start(&scene->link);
	link_finish(net, &scene->link);
	link_check(net, &scene->link, MESSAGE);
	scene->count = relay_records(scene->relay, scene->records);
	check(scene->count >= 1 && scene->records[0].said_count >= 1);
	check_int(scene->records[0].said[0].kind, ANYNET_KIND_COMM);
}

static void take_down(struct test_net *net, struct scene *scene)
{
	link_check(net, &scene->link, MESSAGE);
	link_close(net, &scene->link);
	link_close(net, &scene->other);
	relay_stop(scene->relay);
}

/* The status he is answered with; -1 = he is shut out without an answer. */
static int try_hello(struct test_net *net, struct scene *scene,
		     const struct anynet_wire_hello *hello)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "an answer, or none");
	struct anynet_wire_hello answer;
	int fd = stranger_dial(&scene->target, 0);
	ssize_t got;

	stranger_say(fd, hello, sizeof(*hello));
	do {
		check(!link_accept_step(net, &scene->other));
		deadline_turn(&deadline);
		got = stranger_hear(fd, &answer, sizeof(answer), 10);
	} while (got < 0);
	close(fd);
	if (!got)
		return -1;
	check_int(got, sizeof(answer));
	check_int(answer.type, ANYNET_WELCOME);
	return (int)answer.status;
}

static void repeated_hellos_get_nowhere(struct test_net *net)
{
	static struct scene scene;

	set_up(net, &scene);
	for (size_t i = 0; i < scene.count; i++) {
		int status = try_hello(net, &scene, &scene.records[i].said[0]);
		check_that(status != ANYNET_STATUS_OK,
			   "the hello of connection %zu, again, is taken", i);
		link_check(net, &scene.link, MESSAGE);
	}
	take_down(net, &scene);
}

static void further_rails_do_not_join(struct test_net *net)
{
	static struct scene scene;

	set_up(net, &scene);
	for (uint16_t rail = 0; rail < ANYNET_RAILS_MAX; rail++) {
		struct anynet_wire_hello hello = scene.records[0].said[0];
		hello.kind = ANYNET_KIND_RAIL;
		hello.rail = rail;
		check(try_hello(net, &scene, &hello) != ANYNET_STATUS_OK);
	}
	take_down(net, &scene);
}

/* One thing wrong at a time; the epoch is larger than the rail's. */
static void resumes_made_up_are_refused(struct test_net *net)
{
	static struct scene scene;
	struct anynet_wire_hello hello;

	set_up(net, &scene);
	hello = scene.records[0].said[0];
	hello.kind = ANYNET_KIND_RESUME;
	hello.epoch = 1000;
	for (size_t i = 0; i < sizeof(hello.token); i++) {
		hello.token[i] ^= 0x40;
		check_int(try_hello(net, &scene, &hello), ANYNET_STATUS_GONE);
		hello.token[i] ^= 0x40;
	}
	for (int bit = 0; bit < 64; bit += 7) {
		hello.comm_id ^= 1ull << bit;
		check_int(try_hello(net, &scene, &hello), ANYNET_STATUS_GONE);
		hello.comm_id ^= 1ull << bit;
	}
	hello.endpoint ^= 1;
	check_int(try_hello(net, &scene, &hello), ANYNET_STATUS_GONE);
	hello.endpoint ^= 1;
	link_check(net, &scene.link, MESSAGE);
	hello.rail = 63;
	check_int(try_hello(net, &scene, &hello), ANYNET_STATUS_STALE);
	hello.rail = 64;
	check_int(try_hello(net, &scene, &hello), -1);
	hello.rail = 0;
	hello.epoch = scene.records[0].said[0].epoch;
	check_int(try_hello(net, &scene, &hello), ANYNET_STATUS_STALE);
	hello.epoch -= 5;
	check_int(try_hello(net, &scene, &hello), ANYNET_STATUS_STALE);
	take_down(net, &scene);
}

/* He learns nothing about comms whose numbers he does not know. */
static void probes_made_up_learn_nothing(struct test_net *net)
{
	static struct scene scene;
	struct anynet_wire_hello hello;

	set_up(net, &scene);
	hello = scene.records[0].said[0];
	hello.kind = ANYNET_KIND_PROBE;
	hello.token[3] ^= 1;
	check(try_hello(net, &scene, &hello) != ANYNET_STATUS_OK);
	hello.token[3] ^= 1;
	hello.comm_id++;
	check(try_hello(net, &scene, &hello) != ANYNET_STATUS_OK);
	take_down(net, &scene);
}

/* The endpoint's number may be another one's by now; its token is not. */
static void hellos_for_a_listener_that_is_gone_get_nowhere(struct test_net *net)
{
	static struct scene scene;
	struct link next;

	set_up(net, &scene);
	link_close(net, &scene.link);
	link_listen(net, &next);
	check_int(try_hello(net, &scene, &scene.records[0].said[0]), -1);
	link_finish(net, &next);
	link_check(net, &next, MESSAGE);
	link_close(net, &next);
	link_close(net, &scene.other);
	relay_stop(scene.relay);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "repeated_hellos_get_nowhere",
		  repeated_hellos_get_nowhere,
		  .settings = { "ANYNET_TCP_RAILS=3" } },
		{ .name = "further_rails_do_not_join", further_rails_do_not_join },
		{ .name = "resumes_made_up_are_refused", resumes_made_up_are_refused },
		{ .name = "probes_made_up_learn_nothing", probes_made_up_learn_nothing },
		{ .name = "hellos_for_a_listener_that_is_gone_get_nowhere",
		  hellos_for_a_listener_that_is_gone_get_nowhere },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
