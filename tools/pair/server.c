/* SPDX-License-Identifier: Apache-2.0 */
/* anynet serve: the listener and its sessions; see server.h. */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "facts.h"
#include "ports.h"
#include "print.h"
#include "request.h"
#include "tools/shared/address.h"
#include "tools/shared/child.h"
#include "tools/shared/clean.h"
#include "tools/shared/member.h"
#include "transports/wire/allow.h"
#include "wire.h"

#define REPLY_MS  5000
#define SAID_MAX  1024
#define DIALS_MAX 256 /* per session */

static bool as_json;
static char client[ADDRESS_TEXT]; /* of this process; "" = the listener */
static int turn;                  /* a memfd whose lock holder is served */

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints a line, or a JSON object in a line. */
static void say(const char *fmt, ...)
{
	char said[SAID_MAX], text[SAID_MAX], when[NOW_UTC_BYTES];
	json_t *event;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(said, sizeof(said), fmt, ap);
	va_end(ap);
	if (!as_json) {
		print_line(stdout, "%s", said);
		return;
	}
	clean(text, sizeof(text), said, strlen(said));
	event = json_pack("{s:s, s:s, s:s}", "when", now_utc(when), "client", client, "says",
			  text + strspn(text, " "));
	json_dumpf(event, stdout, JSON_COMPACT);
	putchar('\n');
	fflush(stdout);
	json_decref(event);
}

struct session {
	int fd;
	struct pair_host *host;
	struct responder *responder;
	unsigned dials;
	json_t *theirs;  /* facts of the client */
	struct proved proved;
	const char *end; /* describes the end of the session; NULL = it goes on */
};

/* --- requests --- */

static json_t *do_listen(struct session *s)
{
	json_t *list;

	responder_stop(s->responder);
	s->responder = ports_open(s->fd, s->host, &list);
	return list ? list : json_pack("{s:s, s:[]}", "token", "", "ports");
}

static json_t *do_dial(struct session *s, const struct request *request)
{
	if (++s->dials > DIALS_MAX)
		return json_pack("{s:s, s:s}", "state", "failed", "error",
				 "more connections were requested than a session may have");
	return ports_dial(s->fd, s->host, s->theirs, request, &s->proved);
}

/* Stops the responder first: its thread must end before a process is forked. */
static void do_plugin(struct session *s, struct request *request)
{
	json_t *result;

	if (!s->proved.count) {
		s->end = "asked for the plugin before one of its data ports was tested: closed";
		return;
	}
	responder_stop(s->responder);
	s->responder = NULL;
	request->traffic.plugin = s->host->plugin;
	request->traffic.proved = &s->proved;
	result = traffic_run(s->fd, &request->traffic);
	if (*member_text(result, "error"))
		say("  through the plugin: %s", member_text(result, "error"));
	json_decref(result);
}

static json_t *do_clock(int64_t seen)
{
	return json_pack("{s:I, s:I}", "seen", (json_int_t)seen, "replied",
			 (json_int_t)(int64_t)now_wall_ns());
}

static json_t *do_facts(struct session *s, const json_t *message)
{
	json_t *theirs = json_object_get(message, "facts");

	if (!facts_within_bounds(theirs)) {
		s->end = "sent invalid facts: closed";
		return NULL;
	}
	if (!s->theirs)
		s->theirs = json_incref(theirs);
	say("  it is %s, anynet %s", member_text(theirs, "host"), member_text(theirs, "version"));
	return json_pack("{s:O, s:o}", "facts", s->host->facts, "way", facts_way(s->fd));
}

static void handle_request(struct session *s, const json_t *message, int64_t seen)
{
	struct request request;
	json_t *reply = NULL;

	if (request_parse(message, &request)) {
		s->end = "sent an invalid request: closed";
		return;
	}
	switch (request.op) {
	case REQUEST_FACTS:
		reply = do_facts(s, message);
		break;
	case REQUEST_CLOCK:
		reply = do_clock(seen);
		break;
	case REQUEST_LISTEN:
		reply = do_listen(s);
		break;
	case REQUEST_UNLISTEN:
		responder_stop(s->responder);
		s->responder = NULL;
		reply = json_object();
		break;
	case REQUEST_DIAL:
		if (request.dial.bytes > DIAL_PROBE_BYTES)
			say("  bandwidth test: up to %.1f s or %.0f MB over TCP",
			    request.dial.ms / 1e3, (double)request.dial.bytes / 1e6);
		reply = do_dial(s, &request);
		break;
	case REQUEST_PLUGIN:
		if (request.traffic.ms)
			say("  through the plugin (%s): latency, and bandwidth, up to %.1f s or "
			    "%.0f MB a run",
			    request.traffic.transport, request.traffic.ms / 1e3,
			    (double)request.traffic.bytes / 1e6);
		else
			say("  through the plugin (%s): latency", request.traffic.transport);
		do_plugin(s, &request);
		return;
	case REQUEST_BYE:
		s->end = "done";
		return;
	}
	if (!s->end && pair_send_new(s->fd, reply, REPLY_MS))
		s->end = "vanished";
}

const char *server_session(int fd, struct pair_host *host)
{
	struct session s = { .fd = fd, .host = host };

	while (!s.end) {
		json_t *message;
		int ret = pair_recv(fd, &message, SERVER_IDLE_MS);

		if (ret) {
			s.end = ret == -EPROTO      ? "sent an invalid message: closed"
				: ret == -ETIMEDOUT ? "sent no request for 30 s: closed"
						    : "vanished";
			break;
		}
		handle_request(&s, message, (int64_t)now_wall_ns());
		json_decref(message);
	}
	responder_stop(s.responder);
	json_decref(s.theirs);
	return s.end;
}

/* --- a client's process --- */

/* Serves one client at a time, so that measurements do not disturb each other. The lock is released
 * at exit. */
static void take_turn(void)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	while (fcntl(turn, F_SETLKW, &whole) && errno == EINTR)
		;
	alarm(SERVER_SESSION_MS / 1000);
}

static void serve_client(int fd, const struct sockaddr_storage *peer,
			 const struct server_options *o)
{
	static struct pair_host host; /* static, since it is too large for the stack */
	char address[ADDRESS_TEXT], opening[PAIR_OPENING_MAX + 1];
	uint32_t version;
	int ret = pair_hear(fd, &version, opening, SERVER_GREET_MS);

	address_print(peer, address);
	strcpy(client, address);
	/* Only a client with a valid greeting takes a turn; others neither wait nor delay anyone. */
	if (!ret && version == PAIR_VERSION)
		take_turn();
	if (!ret)
		ret = pair_speak(fd, SERVER_GREET_MS);
	if (!ret && version != PAIR_VERSION)
		say("%s uses version %u of the pair protocol, this host %d: closed", address,
		    version, PAIR_VERSION);
	else if (ret)
		say("%s is not `anynet pair` (%s%s%s): closed", address,
		    *opening            ? "it sent '"
		    : ret == -ETIMEDOUT ? "it sent nothing"
					: "it disconnected",
		    opening, *opening ? "'" : "");
	if (ret || version != PAIR_VERSION)
		return;
	say("%s port %d:", address, address_port(peer));
	pair_host_read(&host, o->plugin);
	if (!o->bare)
		facts_ask_libraries(host.facts);
	say("%s %s", address, server_session(fd, &host));
	json_decref(host.facts);
}

/* --- the processes --- */

/* Processes of clients that have not exited. */
struct crowd {
	struct member {
		pid_t pid; /* 0 = free slot */
		char address[ADDRESS_TEXT];
	} members[SERVER_CROWD];
};

static void reap(struct crowd *crowd, bool wait)
{
	for (size_t i = 0; i < SERVER_CROWD; i++) {
		struct member *m = &crowd->members[i];
		int status;

		if (m->pid <= 0 || waitpid(m->pid, &status, wait ? 0 : WNOHANG) != m->pid)
			continue;
		m->pid = 0;
		if (!WIFSIGNALED(status))
			continue;
		if (WTERMSIG(status) == SIGALRM)
			say("%s took more than %d s: ended", m->address, SERVER_SESSION_MS / 1000);
		else
			say("%s: the process that served it was killed by signal %d", m->address,
			    WTERMSIG(status));
	}
}

/* Returns a free slot; NULL = none, or the address has SERVER_SHARE connections already. */
static struct member *find_place(struct crowd *crowd, const char *address)
{
	struct member *place = NULL;
	size_t same = 0;

	for (size_t i = 0; i < SERVER_CROWD; i++) {
		struct member *m = &crowd->members[i];

		if (!m->pid)
			place = m;
		else
			same += !strcmp(m->address, address);
	}
	return same < SERVER_SHARE ? place : NULL;
}

/* Returns whether a process has been started for the connection. */
static bool take_client(int listener, const struct server_options *o, struct crowd *crowd)
{
	struct sockaddr_storage peer = { 0 };
	socklen_t len = sizeof(peer);
	int fd = accept4(listener, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC), one = 1;
	char address[ADDRESS_TEXT];
	struct member *place;
	sigset_t none;
	pid_t parent = getpid(), pid;

	if (fd < 0)
		return false;
	address_print(&peer, address);
	reap(crowd, false);
	place = find_place(crowd, address);
	if (!allow_permits(&peer) || !place) {
		say(place ? "%s is not in ANYNET_ALLOW: closed"
			  : "%s: too many clients are waiting: closed",
		    address);
		close(fd);
		return false;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	fflush(NULL);
	pid = fork();
	if (!pid) {
		child_ends_with(parent);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		close(listener);
		serve_client(fd, &peer, o);
		exit(0);
	}
	close(fd);
	if (pid < 0) {
		say("cannot start a process for a client: %s", strerror(errno));
		return false;
	}
	place->pid = pid;
	strcpy(place->address, address);
	return true;
}

/* --- the listener --- */

int server_listen(const struct server_options *o, struct sockaddr_storage *at)
{
	const char *wanted = o->bind ? o->bind : "::";
	int fd = -EINVAL, mss = PAIR_CONTROL_MSS;

	if (address_parse(wanted, o->port, at))
		fd = address_listen(at, 16);
	if (fd == -EAFNOSUPPORT && !o->bind && address_parse("0.0.0.0", o->port, at))
		fd = address_listen(at, 16); /* the host has no IPv6 */
	if (fd >= 0)
		setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof(mss));
	return fd;
}

static void wake(int signal)
{
	(void)signal;
}

void server_loop(int listener, const struct server_options *o)
{
	static struct crowd crowd;
	const struct sigaction action = { .sa_handler = wake };
	struct pollfd next = { .fd = listener, .events = POLLIN };
	sigset_t chld, open;

	turn = memfd_create("turn", MFD_CLOEXEC);
	/* SIGCHLD is delivered only during ppoll, so that it cannot be missed. */
	sigaction(SIGCHLD, &action, NULL);
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, &open);
	sigdelset(&open, SIGCHLD);
	for (int served = 0; !o->clients || served < o->clients;) {
		if (ppoll(&next, 1, NULL, &open) > 0)
			served += take_client(listener, o, &crowd);
		reap(&crowd, false);
	}
	reap(&crowd, true);
}

int server_run(const struct server_options *o)
{
	static struct anynet_config cfg;
	struct sockaddr_storage at;
	char address[ADDRESS_TEXT];
	int listener = server_listen(o, &at);

	if (listener < 0) {
		fprintf(stderr, "anynet serve: cannot listen on %s port %d: %s\n",
			o->bind ? o->bind : "any address", o->port, strerror(-listener));
		return 2;
	}
	as_json = o->json;
	anynet_config_load(&cfg, NULL);
	allow_start(cfg.allow);
	say("anynet serve: listening on %s, port %d%s",
	    o->bind ? address_print(&at, address) : "all addresses of this host", address_port(&at),
	    *cfg.allow ? ", only for ANYNET_ALLOW" : "");
	server_loop(listener, o);
	close(listener);
	return 0;
}
