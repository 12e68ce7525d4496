/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded: flips a bit of every large piece of data that recv returns. */
#include <dlfcn.h>
#include <string.h>
#include <sys/socket.h>

#define LARGE 4096

ssize_t recv(int fd, void *data, size_t bytes, int flags)
{
	ssize_t (*real)(int fd, void *data, size_t bytes, int flags);
	void *symbol = dlsym(RTLD_NEXT, "recv");
	ssize_t got;

	memcpy(&real, &symbol, sizeof(real));
	got = real(fd, data, bytes, flags);
	if (got >= LARGE)
		((unsigned char *)data)[got / 2 & ~3] ^= 0x40;
	return got;
}
