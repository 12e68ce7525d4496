/* SPDX-License-Identifier: Apache-2.0 */
/* Facts that require loading libraries: NCCL's version, GPUs. Loading runs their code, which may
 * hang, so each is asked in a child process. */
#include "facts.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

#include <nccl_net/util.h>

#include "task.h"
#include "tools/shared/member.h"
#include "tools/shared/nvml.h"
#include "tools/shared/text.h"

static json_t *ask_nccl(void *arg)
{
	void *lib = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
	struct link_map *map = NULL;
	int (*get)(int *) = NULL;
	char version[32];
	int code = 0, major;

	(void)arg;
	if (!lib)
		return json_object();
	*(void **)&get = dlsym(lib, "ncclGetVersion");
	if (!get || get(&code) || dlinfo(lib, RTLD_DI_LINKMAP, (void *)&map))
		return json_object();
	/* Versions up to 2.8 have one digit less. */
	major = code < 10000 ? 1000 : 10000;
	snprintf(version, sizeof(version), "%d.%d.%d", code / major, code % major / 100,
		 code % 100);
	return json_pack("{s:s, s:s}", "nccl", version, "nccl_file", map->l_name);
}

/* "gpus": "2 x NVIDIA H200, 1 x NVIDIA L4". */
static json_t *ask_nvml(void *arg)
{
	static struct nvml nvml;
	struct text_list names = { 0 };

	(void)arg;
	nvml_read(&nvml);
	if (nvml.state != NVML_WORKS)
		return json_object();
	for (int i = 0; i < nvml.count; i++)
		text_list_add(&names, nvml.gpus[i].name);
	return json_pack("{s:s, s:s}", "gpus", text_list_tally(&names), "driver", nvml.driver);
}

void facts_ask_libraries(json_t *facts)
{
	/* The first two come from NCCL, the others from the driver. */
	static const char *const names[] = { "nccl", "nccl_file", "gpus", "driver" };
	json_t *answers[] = {
		task_run(ask_nccl, NULL, FACTS_ASK_MS, "the process that loads NCCL", -1),
		task_run(ask_nvml, NULL, FACTS_ASK_MS, "the process that loads NVML", -1)
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const json_t *answer = answers[i / 2];

		json_object_set_new(facts, names[i],
				    json_object_get(answer, "error")
					    ? json_null()
					    : json_string(member_text(answer, names[i])));
	}
	json_decref(answers[0]);
	json_decref(answers[1]);
}
