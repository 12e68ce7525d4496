/* SPDX-License-Identifier: Apache-2.0 */
/* Messages and the control connection of a session; see client_session.h. */
#include "client_session.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "server.h"
#include "tools/shared/output_args.h"
#include "wire.h"

#define GREET_MS 30000 /* long, because the server serves one client at a time */
#define SPARE_MS 10000 /* for the end of the session */
#define REPEAT_MS \
	2000 /* maximum of a bandwidth run that is repeated, so that all fit into SERVER_SESSION_MS */

void client_tell(const struct client *c, const char *what)
{
	if (!c->o->is_worker && !output_is_quiet() && isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K%s%s", what, *what ? " ..." : "");
}

int client_fail(struct client *c, const char *step, const char *fix, const char *fmt, ...)
{
	char reason[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	if (!json_object_get(c->result, "failure"))
		json_object_set_new(c->result, "failure",
				    json_pack("{s:s, s:s, s:s}", "step", step, "reason", reason,
					      "fix", fix));
	return -1;
}

const char *client_why(int ret)
{
	switch (-ret) {
	case ETIMEDOUT:
		return "the other host does not answer in time";
	case ECONNRESET:
		return "the other host closed the connection";
	case EPROTO:
		return "the other host's answer is invalid";
	default:
		return strerror(-ret);
	}
}

json_t *client_ask(struct client *c, const char *step, json_t *request, int ms)
{
	json_t *reply = NULL;
	int ret = pair_send_new(c->fd, request, CLIENT_REPLY_MS);

	if (!ret)
		ret = pair_recv(c->fd, &reply, ms);
	if (ret)
		client_fail(c, step, "", "%s", client_why(ret));
	return reply;
}

/* --- the control connection --- */

int client_connect(struct client *c)
{
	char why_not[CONTROL_TEXT];
	int fd = control_open(c->o->host, c->o->port, why_not);

	if (fd >= 0) {
		c->fd = fd;
		return 0;
	}
	if (fd == -ENOENT)
		return client_fail(c, "the name of the other host",
				   "Check the name, /etc/hosts and DNS.", "%s", why_not);
	return client_fail(c, "connecting to the other host",
			   fd == -ECONNREFUSED
				   ? "Start `anynet serve` on that host. If it uses another port "
				     "(`anynet serve --port`), give HOST:PORT here."
				   : "Check the address, and that no firewall blocks this port. "
				     "To use another port: `anynet serve --port PORT` there, and "
				     "HOST:PORT here.",
			   "%s", why_not);
}

int client_greet(struct client *c)
{
	char opening[PAIR_OPENING_MAX + 1];
	uint32_t version;
	int ret = pair_greet(c->fd, true, &version, opening, GREET_MS);

	c->end_ms = now_ms() + SERVER_SESSION_MS - SPARE_MS;
	if (ret == -EPROTONOSUPPORT)
		return client_fail(
			c, "starting the session", "Install the same anynet on both hosts.",
			"the other host uses version %u of the pair protocol, this host %d",
			version, PAIR_VERSION);
	if (ret == -EPROTO)
		return client_fail(c, "starting the session", "Give the port of `anynet serve`.",
				   "another program than `anynet serve` answers: '%s'", opening);
	return ret ? client_fail(c, "starting the session",
				 "Check that it is `anynet serve`, and not busy with another "
				 "client.",
				 "%s", client_why(ret))
		   : 0;
}

bool client_has_time(const struct client *c, uint64_t began_ms)
{
	uint64_t now = now_ms();

	return now + (now - began_ms) < c->end_ms;
}

int client_repeat_ms(const struct client *c)
{
	return c->o->measure.ms < REPEAT_MS ? c->o->measure.ms : REPEAT_MS;
}
