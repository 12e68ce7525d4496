/* SPDX-License-Identifier: Apache-2.0 */
#include "overheard.h"

#include "capture.h"

void overheard_open(struct test_net *net, struct overheard *comm)
{
	capture_allow_warn();
	link_listen(net, &comm->other);
	link_listen(net, &comm->link);
	unauth_target(link_handle(&comm->link), &comm->target);
	comm->relay = relay_start(&comm->link);
	link_finish(net, &comm->link);
	overheard_check(net, comm);
	comm->count = relay_records(comm->relay, comm->records);
	check(comm->count >= 1 && comm->records[0].said_count >= 1);
	check_int(comm->records[0].said[0].kind, ANYNET_KIND_COMM);
}

void overheard_check(struct test_net *net, struct overheard *comm)
{
	link_check(net, &comm->link, OVERHEARD_BYTES);
}

void overheard_close(struct test_net *net, struct overheard *comm)
{
	overheard_check(net, comm);
	link_close(net, &comm->link);
	link_close(net, &comm->other);
	relay_stop(comm->relay);
}

bool overheard_ask(struct test_net *net, struct overheard *comm, int fd,
		   const struct anynet_wire_hello *message, struct anynet_wire_hello *answer)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "an answer, or none");
	ssize_t got;

	unauth_say(fd, message, sizeof(*message));
	do {
		check(!link_accept_step(net, &comm->other));
		deadline_turn(&deadline);
		got = unauth_hear(fd, answer, sizeof(*answer), 10);
	} while (got < 0);
	check_that(!got || got == sizeof(*answer), "%zd bytes of an answer", got);
	return got;
}
