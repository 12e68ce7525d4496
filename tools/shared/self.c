/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of this program and its plugin; see self.h. */
#include "self.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <nccl_net/util.h>

#define PLUGIN "libnccl-net.so"

const char *self_path(void)
{
	static char path[PATH_MAX];
	ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path) - 1);

	path[bytes > 0 ? bytes : 0] = '\0';
	return path;
}

const char *self_plugin(void)
{
	static const char *const places[] = { "", "../", "../lib/anynet/", "../" ANYNET_LIBDIR "/",
					      "../lib/" };
	static char found[PATH_MAX + 64];
	const char *self = self_path(), *slash = strrchr(self, '/');

	for (size_t i = 0; slash && i < ARRAY_SIZE(places); i++) {
		snprintf(found, sizeof(found), "%.*s/%s%s", (int)(slash - self), self, places[i],
			 PLUGIN);
		if (!access(found, R_OK))
			return found;
	}
	return PLUGIN;
}
