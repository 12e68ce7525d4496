/* SPDX-License-Identifier: Apache-2.0 */
/* ANYNET_SECRET_FILE: peers that know the secret are connected, others are refused with the reason on both sides; and
 * what an eavesdropper without the secret can do. */
#include <support/capture.h>
#include <support/overheard.h>
#include <support/peer.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MESSAGE 1000000 /* bytes */
#define SECRET  "the secret of all ranks of this job\n"
#define ANOTHER "the secret of a job somewhere else\n"

/* --- secret files --- */

static char dir[32], path[64];

static void remove_file(void)
{
	unlink(path);
	rmdir(dir);
}

/* For this process and its children; NULL = none. */
static void use_secret(const char *text, mode_t mode)
{
	if (!text) {
		check_ok(unsetenv("ANYNET_SECRET_FILE"));
		return;
	}
	if (!dlopen("libcrypto.so.3", RTLD_LAZY) && !dlopen("libcrypto.so.1.1", RTLD_LAZY) &&
	    !dlopen("libcrypto.so", RTLD_LAZY))
		check_skip("there is no libcrypto (OpenSSL) here");
	snprintf(dir, sizeof(dir), "/tmp/anynet-secret-XXXXXX");
	check(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/secret", dir);
	atexit(remove_file);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	check_that(fd >= 0, "%s: %s", path, strerror(errno));
	check(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	check_ok(fchmod(fd, mode));
	close(fd);
	check_ok(setenv("ANYNET_SECRET_FILE", path, 1));
}

static void skip_builtin(struct test_net *net)
{
	if (net_is_builtin(net))
		check_skip("NCCL's built-in nets know no secret");
}

/* --- both know it --- */

static void one_secret_connects(struct test_net *net)
{
	struct link link;

	skip_builtin(net);
	use_secret(SECRET, 0600);
	net_open(net);
	for (int i = 0; i < 3; i++) {
		link_open(net, &link);
		link_check(net, &link, MESSAGE);
		link_close(net, &link);
	}
	net_close(net);
}

static void many_connect_side_by_side(struct test_net *net)
{
	static struct link links[64];
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "many connections");

	skip_builtin(net);
	use_secret(SECRET, 0600);
	net_open(net);
	for (size_t i = 0; i < 64; i++)
		link_listen(net, &links[i]);
	for (size_t left = 64; left;) {
		left = 0;
		for (size_t i = 64; i-- > 0;)
			left += !link_accept_step(net, &links[i]);
		for (size_t i = 0; i < 64; i++)
			left += !link_connect_step(net, &links[i]);
		if (left)
			deadline_turn(&deadline);
	}
	for (size_t i = 0; i < 64; i++) {
		link_check(net, &links[i], MESSAGE);
		link_close(net, &links[i]);
	}
	net_close(net);
}

/* Every connection of this process that has a peer. */
static size_t shut_all_connections(void)
{
	size_t count = 0;

	for (int fd = 3; fd < 1024; fd++) {
		struct sockaddr_in peer;
		socklen_t len = sizeof(peer);

		if (!getpeername(fd, (struct sockaddr *)&peer, &len) &&
		    peer.sin_family == AF_INET && !shutdown(fd, SHUT_RDWR))
			count++;
	}
	return count;
}

static void broken_streams_are_resumed_with_it(struct test_net *net)
{
	struct link link;

	skip_builtin(net);
	use_secret(SECRET, 0600);
	net_open(net);
	capture_allow_warn();
	link_open(net, &link);
	link_check(net, &link, MESSAGE);
	for (int i = 0; i < 3; i++) {
		check(shut_all_connections() > 0);
		link_check(net, &link, MESSAGE);
	}
	link_close(net, &link);
	net_close(net);
}

/* --- the secrets differ --- */

/* The secrets of the two processes of a test, and the log lines expected of them. */
struct misfit {
	struct test_net *net;
	const char *connector, *acceptor; /* contents, NULL = no file */
	const char *text;
};

static void connector(int fd, void *arg)
{
	struct misfit *misfit = arg;
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "connect to fail");
	unsigned char handle[DRIVER_HANDLE_BYTES];
	void *comm = NULL;
	int ret = 0;

	use_secret(misfit->connector, 0600);
	net_open(misfit->net);
	capture_allow_warn();
	peer_recv(fd, handle, sizeof(handle));
	while (!ret) {
		ret = driver_connect(misfit->net->driver, misfit->net->ctx, misfit->net->dev,
				     handle, &comm);
		check(!comm);
		deadline_turn(&deadline);
	}
	check_that(capture_count(CAPTURE_WARN, misfit->text) == 1, "no word of '%s'", misfit->text);
	peer_signal(fd);
	net_close(misfit->net);
}

/* Several attempts; the right peer, this process itself, is accepted afterwards. */
static void acceptor(int fd, void *arg)
{
	struct misfit *misfit = arg;
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a word about the secret");
	struct link link;

	use_secret(misfit->acceptor, 0600);
	net_open(misfit->net);
	capture_allow_warn();
	link_listen(misfit->net, &link);
	peer_send(fd, link_handle(&link), DRIVER_HANDLE_BYTES);
	while (!capture_count(CAPTURE_WARN, misfit->text)) {
		check(!link_accept_step(misfit->net, &link));
		deadline_turn(&deadline);
	}
	peer_await(fd);
	link_finish(misfit->net, &link);
	link_check(misfit->net, &link, MESSAGE);
	check_int(capture_count(CAPTURE_WARN, misfit->text), 1);
	link_close(misfit->net, &link);
	net_close(misfit->net);
}

static void check_misfit(struct test_net *net, const char *connectors, const char *acceptors,
			 const char *text)
{
	struct misfit misfit = { net, connectors, acceptors, text };

	skip_builtin(net);
	peer_duo(connector, acceptor, &misfit);
}

static void unequal_secrets_are_told_on_both_sides(struct test_net *net)
{
	check_misfit(net, SECRET, ANOTHER, "have different secrets (ANYNET_SECRET_FILE)");
}

static void a_connector_without_one_is_told_on_both_sides(struct test_net *net)
{
	check_misfit(net, NULL, SECRET, "has a secret (ANYNET_SECRET_FILE)");
}

static void an_acceptor_without_one_is_told_on_both_sides(struct test_net *net)
{
	check_misfit(net, SECRET, NULL, "has a secret (ANYNET_SECRET_FILE)");
}

/* --- a secret that cannot be used: nothing is connected --- */

static void check_unusable(struct test_net *net, const char *text)
{
	unsigned char handle[DRIVER_HANDLE_BYTES];
	void *listener = NULL;

	capture_allow_warn();
	net_open(net);
	check_int(capture_count(CAPTURE_WARN, text), 1);
	capture_forget();
	check(driver_listen(net->driver, net->ctx, net->dev, handle, &listener));
	check(!listener);
	check_int(capture_count(CAPTURE_WARN, text), 1);
	net_close(net);
}

static void a_file_that_others_may_read_is_refused(struct test_net *net)
{
	skip_builtin(net);
	use_secret(SECRET, 0644);
	check_unusable(net, "has mode 0644: other users have access");
}

static void a_short_secret_is_refused(struct test_net *net)
{
	skip_builtin(net);
	use_secret("too short\n", 0600);
	check_unusable(net, "holds 9 bytes; a secret has 16 to 4096");
}

static void a_file_that_is_not_there_is_refused(struct test_net *net)
{
	skip_builtin(net);
	use_secret(SECRET, 0600);
	unlink(path);
	check_unusable(net, "cannot be opened: No such file or directory");
}

static void wait_for_end(int fd, void *arg)
{
	struct test_net *net = arg;
	struct link link;

	use_secret(SECRET, 0600);
	net_open(net);
	link_listen(net, &link);
	peer_send(fd, link_handle(&link), DRIVER_HANDLE_BYTES);
	peer_await(fd);
	link_close(net, &link);
	net_close(net);
}

static void try_without_usable_one(int fd, void *arg)
{
	struct test_net *net = arg;
	unsigned char handle[DRIVER_HANDLE_BYTES];
	void *comm = NULL;

	use_secret(SECRET, 0660);
	capture_allow_warn();
	net_open(net);
	capture_forget();
	peer_recv(fd, handle, sizeof(handle));
	check(driver_connect(net->driver, net->ctx, net->dev, handle, &comm));
	check(!comm);
	check_int(capture_count(CAPTURE_WARN, "has mode 0660"), 1);
	peer_signal(fd);
	net_close(net);
}

static void without_a_usable_secret_nothing_is_connected(struct test_net *net)
{
	skip_builtin(net);
	peer_duo(try_without_usable_one, wait_for_end, net);
}

/* --- an eavesdropper --- */

static void set_up(struct test_net *net, struct overheard *comm)
{
	skip_builtin(net);
	use_secret(SECRET, 0600);
	net_open(net);
	overheard_open(net, comm);
	for (size_t i = 0; i < comm->count; i++) {
		check_int(comm->records[i].said_count, 2);
		check_int(comm->records[i].said[1].type, ANYNET_RESPONSE);
		check_int(comm->records[i].heard[0].type, ANYNET_CHALLENGE);
	}
}

static void take_down(struct test_net *net, struct overheard *comm)
{
	overheard_close(net, comm);
	net_close(net);
}

static void replayed_messages_are_refused(struct test_net *net)
{
	static struct overheard comm;

	set_up(net, &comm);
	for (size_t i = 0; i < comm.count; i++) {
		struct anynet_wire_hello answer;
		int fd = unauth_dial(&comm.target, 0);

		/* A hello can be replayed, so there is a challenge; its answer cannot be known. */
		check(overheard_ask(net, &comm, fd, &comm.records[i].said[0], &answer));
		check_int(answer.type, ANYNET_CHALLENGE);
		check(memcmp(answer.nonce, comm.records[i].heard[0].nonce, sizeof(answer.nonce)));
		check(overheard_ask(net, &comm, fd, &comm.records[i].said[1], &answer));
		check_int(answer.type, ANYNET_WELCOME);
		check_int(answer.status, ANYNET_STATUS_AUTH);
		close(fd);
	}
	check_int(capture_count(CAPTURE_WARN, "has not proved that it knows the secret"), 1);
	take_down(net, &comm);
}

/* Everything right but the proof; nothing of it reaches the comm. */
static void forged_messages_are_refused(struct test_net *net)
{
	static const uint8_t kinds[] = { ANYNET_KIND_COMM, ANYNET_KIND_STREAM, ANYNET_KIND_RESUME };
	static struct overheard comm;

	set_up(net, &comm);
	for (size_t i = 0; i < 2 * sizeof(kinds); i++) {
		struct anynet_wire_hello hello = comm.records[0].said[0], answer;
		int fd = unauth_dial(&comm.target, 0);

		hello.kind = kinds[i / 2];
		hello.epoch += 1000;
		if (i % 2)
			hello.features = 0;
		check(overheard_ask(net, &comm, fd, &hello, &answer));
		check_int(answer.type, ANYNET_WELCOME);
		check_int(answer.status, ANYNET_STATUS_AUTH);
		close(fd);
	}
	take_down(net, &comm);
}

static void without_token_and_secret_there_is_no_answer(struct test_net *net)
{
	static const uint8_t kinds[] = { ANYNET_KIND_COMM, ANYNET_KIND_STREAM, ANYNET_KIND_RESUME,
					 ANYNET_KIND_PROBE };
	static struct overheard comm;

	set_up(net, &comm);
	for (size_t i = 0; i < sizeof(kinds); i++) {
		struct anynet_wire_hello hello = comm.records[0].said[0], answer;
		int fd = unauth_dial(&comm.target, 0);

		hello.kind = kinds[i];
		hello.token[i]++;
		check(!overheard_ask(net, &comm, fd, &hello, &answer));
		close(fd);
	}
	check_int(capture_count(CAPTURE_WARN, NULL), 0);
	take_down(net, &comm);
}

/* A thousand connections that begin like the peer's do not block it. */
static void replayed_hellos_do_not_keep_the_peer_out(struct test_net *net)
{
	static struct overheard comm;
	static int fds[2000];

	set_up(net, &comm);
	for (size_t i = 0; i < 2000; i++) {
		fds[i] = unauth_dial(&comm.target, 0);
		unauth_say(fds[i], &comm.records[0].said[0], sizeof(comm.records[0].said[0]));
		if (i % 50 == 0)
			check(!link_accept_step(net, &comm.other));
	}
	link_finish(net, &comm.other);
	link_check(net, &comm.other, MESSAGE);
	for (size_t i = 0; i < 2000; i++)
		close(fds[i]);
	take_down(net, &comm);
}

/* Challenged connections are counted separately from unauthenticated ones. */
static void unauthenticated_connections_do_not_displace_challenged_ones(struct test_net *net)
{
	static struct overheard comm;
	static int fds[2000];
	struct anynet_wire_hello answer;

	set_up(net, &comm);
	int fd = unauth_dial(&comm.target, 0);
	check(overheard_ask(net, &comm, fd, &comm.records[0].said[0], &answer));
	check_int(answer.type, ANYNET_CHALLENGE);
	for (size_t i = 0; i < 2000; i++) {
		fds[i] = unauth_dial(&comm.target, 2);
		check(!link_accept_step(net, &comm.other));
	}
	check(unauth_is_shut_out(fds[0]));
	check(!unauth_is_shut_out(fd));
	for (size_t i = 0; i < 2000; i++)
		close(fds[i]);
	close(fd);
	take_down(net, &comm);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "one_secret_connects", one_secret_connects, .unopened = true },
		{ .name = "one_secret_connects_4streams",
		  one_secret_connects,
		  .unopened = true,
		  .settings = { "ANYNET_TCP_CONNECTIONS=4" } },
		{ .name = "many_connect_side_by_side",
		  many_connect_side_by_side,
		  .unopened = true },
		{ .name = "broken_streams_are_resumed_with_it",
		  broken_streams_are_resumed_with_it,
		  .unopened = true,
		  .settings = { "ANYNET_TCP_CONNECTIONS=3" } },
		{ .name = "unequal_secrets_are_told_on_both_sides",
		  unequal_secrets_are_told_on_both_sides,
		  .unopened = true },
		{ .name = "a_connector_without_one_is_told_on_both_sides",
		  a_connector_without_one_is_told_on_both_sides,
		  .unopened = true },
		{ .name = "an_acceptor_without_one_is_told_on_both_sides",
		  an_acceptor_without_one_is_told_on_both_sides,
		  .unopened = true },
		{ .name = "a_file_that_others_may_read_is_refused",
		  a_file_that_others_may_read_is_refused,
		  .unopened = true },
		{ .name = "a_short_secret_is_refused",
		  a_short_secret_is_refused,
		  .unopened = true },
		{ .name = "a_file_that_is_not_there_is_refused",
		  a_file_that_is_not_there_is_refused,
		  .unopened = true },
		{ .name = "without_a_usable_secret_nothing_is_connected",
		  without_a_usable_secret_nothing_is_connected,
		  .unopened = true },
		{ .name = "replayed_messages_are_refused",
		  replayed_messages_are_refused,
		  .unopened = true,
		  .settings = { "ANYNET_TCP_CONNECTIONS=3" } },
		{ .name = "forged_messages_are_refused",
		  forged_messages_are_refused,
		  .unopened = true },
		{ .name = "without_token_and_secret_there_is_no_answer",
		  without_token_and_secret_there_is_no_answer,
		  .unopened = true },
		{ .name = "unauthenticated_connections_do_not_displace_challenged_ones",
		  unauthenticated_connections_do_not_displace_challenged_ones,
		  .unopened = true,
		  .settings = { "ANYNET_HANDSHAKE_TIMEOUT=10min" } },
		{ .name = "replayed_hellos_do_not_keep_the_peer_out",
		  replayed_hellos_do_not_keep_the_peer_out,
		  .unopened = true },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
