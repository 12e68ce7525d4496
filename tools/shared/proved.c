/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of the other host, and a process that connects to no others; see proved.h. */
#include "proved.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/shared/address.h"

static const struct proved *limit; /* NULL = this process is not confined */

static struct {
	pthread_mutex_t lock;
	char text[ADDRESS_TEXT + 16];
} refused = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool holds(const struct proved *proved, const struct sockaddr_storage *addr)
{
	struct sockaddr_storage plain = *addr;

	address_plain(&plain);
	for (size_t i = 0; i < proved->count; i++) {
		if (address_is_same(&plain, &proved->addrs[i]))
			return true;
	}
	return false;
}

void proved_add(struct proved *proved, const struct sockaddr_storage *addr)
{
	if (proved->count == PROVED_MAX || holds(proved, addr))
		return;
	proved->addrs[proved->count] = *addr;
	address_plain(&proved->addrs[proved->count++]);
}

void proved_confine(const struct proved *proved)
{
	limit = proved;
	pthread_mutex_lock(&refused.lock);
	*refused.text = '\0';
	pthread_mutex_unlock(&refused.lock);
}

const char *proved_refused(void)
{
	static char text[sizeof(refused.text)];

	pthread_mutex_lock(&refused.lock);
	memcpy(text, refused.text, sizeof(text));
	pthread_mutex_unlock(&refused.lock);
	return text;
}

static void note(const struct sockaddr_storage *to)
{
	char address[ADDRESS_TEXT];

	address_print(to, address);
	pthread_mutex_lock(&refused.lock);
	if (!*refused.text)
		snprintf(refused.text, sizeof(refused.text), "%s port %d", address,
			 address_port(to));
	pthread_mutex_unlock(&refused.lock);
}

/* A datagram socket sends nothing when it connects; the plugin looks up routes with one. */
static bool is_stream(int fd)
{
	int type = SOCK_STREAM;
	socklen_t bytes = sizeof(type);

	getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes);
	return type == SOCK_STREAM;
}

/* The dynamic loader binds the calls of all libraries in this process to this function instead of libc's. */
int confined_connect(int fd, const struct sockaddr *addr, socklen_t bytes) __asm__("connect")
	__attribute__((visibility("default")));

int confined_connect(int fd, const struct sockaddr *addr, socklen_t bytes)
{
	struct sockaddr_storage to = { 0 };

	memcpy(&to, addr, bytes < sizeof(to) ? bytes : sizeof(to));
	if (limit && (to.ss_family == AF_INET || to.ss_family == AF_INET6) && is_stream(fd) &&
	    (address_port(&to) < PROVED_PORT_MIN || !holds(limit, &to))) {
		note(&to);
		errno = EACCES;
		return -1;
	}
	return (int)syscall(SYS_connect, fd, addr, bytes);
}
