/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's descriptors; see fd.h. */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nccl_net/util.h>

#define FDS_MAX   (1 << 20) /* the kernel's default fs.nr_open */
#define WORD_BITS 64
#define FDS_EXPECTED 1024 /* of the whole process, by fd_grow_table */

/* The set of descriptors, one bit each. It has no lock, because a child that is forked while one is held would inherit
 * it locked. */
static _Atomic uint64_t noted[FDS_MAX / WORD_BITS];
static _Atomic int words_used;
static unsigned forks;

static uint64_t bit_of(int fd)
{
	return UINT64_C(1) << fd % WORD_BITS;
}

/* Runs in the forked child, which has only this thread: async-signal-safe calls only. */
static void replace_all(void)
{
	int nowhere = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), saved_errno = errno;

	forks++;
	for (int word = 0; word < atomic_load(&words_used); word++) {
		uint64_t bits = atomic_exchange(&noted[word], 0);

		for (; bits; bits &= bits - 1) {
			int fd = word * WORD_BITS + __builtin_ctzll(bits);

			if (nowhere < 0 || dup3(nowhere, fd, O_CLOEXEC) < 0)
				close(fd);
		}
	}
	if (nowhere >= 0)
		close(nowhere);
	errno = saved_errno;
}

/* The library is never unloaded (-z nodelete), so the handler stays valid. */
__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, replace_all);
}

static void use_word(int word)
{
	int used = atomic_load(&words_used);

	while (word >= used && !atomic_compare_exchange_weak(&words_used, &used, word + 1))
		;
}

/* Another number for `fd`, above those of the standard streams. -1 with errno: there is none. */
static int move_up(int fd)
{
	int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), saved_errno = errno;

	close(fd);
	errno = saved_errno;
	return moved;
}

int fd_note(int fd)
{
	if (fd >= 0 && fd <= STDERR_FILENO)
		fd = move_up(fd);
	if (fd < 0)
		return -errno;
	if (fd >= FDS_MAX) {
		close(fd);
		return -EMFILE;
	}
	use_word(fd / WORD_BITS);
	atomic_fetch_or(&noted[fd / WORD_BITS], bit_of(fd));
	return fd;
}

unsigned fd_forks(void)
{
	return forks;
}

void fd_grow_table(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), high = -1;
	struct rlimit limit;

	if (fd >= 0 && !getrlimit(RLIMIT_NOFILE, &limit))
		high = fcntl(fd, F_DUPFD_CLOEXEC, (int)anynet_min(limit.rlim_cur, FDS_EXPECTED) - 1);
	if (high >= 0)
		close(high);
	if (fd >= 0)
		close(fd);
}

/* Clears the bit before the close, because afterwards the number may be another thread's. */
void fd_close(int *fd)
{
	int saved_errno = errno;

	if (*fd < 0)
		return;
	atomic_fetch_and(&noted[*fd / WORD_BITS], ~bit_of(*fd));
	close(*fd);
	*fd = -1;
	errno = saved_errno;
}

void fd_hang_up(int *fd, int epfd)
{
	int saved_errno = errno;

	if (*fd < 0)
		return;
	if (epfd >= 0)
		epoll_ctl(epfd, EPOLL_CTL_DEL, *fd, NULL);
	shutdown(*fd, SHUT_RDWR);
	fd_close(fd);
	errno = saved_errno;
}
