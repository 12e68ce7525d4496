/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded: one call of recvmsg in each process fails as if its connection had been reset. */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#define BREAK_AT 200

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	static atomic_int calls;
	ssize_t (*real)(int fd, struct msghdr *msg, int flags);
	void *symbol = dlsym(RTLD_NEXT, "recvmsg");

	memcpy(&real, &symbol, sizeof(real));
	if (atomic_fetch_add(&calls, 1) != BREAK_AT)
		return real(fd, msg, flags);
	shutdown(fd, SHUT_RDWR);
	errno = ECONNRESET;
	return -1;
}
