/* SPDX-License-Identifier: Apache-2.0 */
/* Facts that require loading libraries: NCCL's version, GPUs. Loading runs their code, which may
 * hang, so each is asked in a child process. */
#include "facts.h"

#include <dlfcn.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/shared/nvml.h"
#include "wire.h"

#define ASK_MS 5000 /* timeout for loading and asking a library */

static void ask_nccl(int out)
{
	void *lib = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
	struct link_map *map = NULL;
	int (*get)(int *) = NULL;
	int code = 0;

	if (!lib)
		return;
	*(void **)&get = dlsym(lib, "ncclGetVersion");
	if (!get || get(&code) || dlinfo(lib, RTLD_DI_LINKMAP, (void *)&map))
		return;
	/* Versions up to 2.8 have one digit less. */
	if (code < 10000)
		dprintf(out, "%d.%d.%d\n%s", code / 1000, code / 100 % 10, code % 100, map->l_name);
	else
		dprintf(out, "%d.%d.%d\n%s", code / 10000, code / 100 % 100, code % 100,
			map->l_name);
}

/* Writes "2 x NVIDIA H200, 1 x NVIDIA L4\n535.104.05". */
static void ask_nvml(int out)
{
	static struct nvml nvml;
	bool first = true;

	nvml_read(&nvml);
	if (nvml.state != NVML_WORKS)
		return;
	for (int i = 0; i < nvml.count; i++) {
		int alike = 0, before = 0;

		for (int k = 0; k < nvml.count; k++) {
			bool same = !strcmp(nvml.gpus[k].name, nvml.gpus[i].name);

			alike += same;
			before += same && k < i;
		}
		if (!before)
			dprintf(out, "%s%d x %s", first ? "" : ", ", alike, nvml.gpus[i].name);
		first = false;
	}
	dprintf(out, "\n%s", nvml.driver);
}

/* Runs what() in a child process and reads its output into `text`, which keeps the first line.
 * Returns the second line. */
static const char *ask(void (*what)(int out), char *text, size_t bytes)
{
	uint64_t end = pair_now_ms() + ASK_MS;
	size_t got = 0;
	int fds[2], left;
	char *second;
	pid_t pid;

	*text = '\0';
	if (pipe(fds))
		return "";
	fflush(NULL);
	pid = fork();
	if (!pid) {
		close(fds[0]);
		what(fds[1]);
		_exit(0);
	}
	close(fds[1]);
	while (pid > 0 && (left = pair_ms_until(end)) && got < bytes - 1) {
		struct pollfd pfd = { .fd = fds[0], .events = POLLIN };
		ssize_t n;

		if (poll(&pfd, 1, left) <= 0)
			continue;
		n = read(fds[0], text + got, bytes - 1 - got);
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	text[got] = '\0';
	close(fds[0]);
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	second = strchr(text, '\n');
	if (second)
		*second++ = '\0';
	return second ? second : "";
}

void facts_ask_libraries(json_t *facts)
{
	char text[4096];
	const char *second = ask(ask_nccl, text, sizeof(text));

	json_object_set_new(facts, "nccl", json_string(text));
	json_object_set_new(facts, "nccl_file", json_string(second));
	second = ask(ask_nvml, text, sizeof(text));
	json_object_set_new(facts, "gpus", json_string(text));
	json_object_set_new(facts, "driver", json_string(second));
}
