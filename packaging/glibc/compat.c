/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that have been symbols of glibc since 2.33 only; before, its headers had them inline. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int stat(const char *path, struct stat *st) __attribute__((visibility("hidden")));
int fstat(int fd, struct stat *st) __attribute__((visibility("hidden")));

/* On 64-bit processors the kernel's struct stat is that of the C library. */
int stat(const char *path, struct stat *st)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, st, 0);
}

int fstat(int fd, struct stat *st)
{
	return (int)syscall(SYS_fstat, fd, st);
}
