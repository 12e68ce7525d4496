/* SPDX-License-Identifier: Apache-2.0 */
#include "opened.h"

#include <dlfcn.h>
#include <string.h>

#include <support/check.h>

static void find(void *lib, const char *name, void *function)
{
	void *symbol = dlsym(lib, name);

	check_that(symbol, "%s: %s", name, dlerror());
	memcpy(function, &symbol, sizeof(symbol));
}

void cuda_open(const char *file, struct opened_cuda *cuda)
{
	void *lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);

	check_that(lib, "%s", dlerror());
#define CUDA_FIND(name, arguments) find(lib, #name, &cuda->calls.name);
	CUDA_CALLS(CUDA_FIND)
#undef CUDA_FIND
	find(lib, "fake_cuda_script", &cuda->script);
	find(lib, "fake_cuda_reset", &cuda->reset);
	find(lib, "fake_cuda_counts", &cuda->counts);
	find(lib, "fake_cuda_own", &cuda->own);
	find(lib, "fake_cuda_view", &cuda->view);
	find(lib, "fake_cuda_pin", &cuda->pin);
	find(lib, "fake_cuda_unpin", &cuda->unpin);
	find(lib, "fake_cuda_pin_dmabuf", &cuda->pin_dmabuf);
	find(lib, "fake_cuda_on_flush", &cuda->on_flush);
	dlclose(lib); /* stays loaded, being linked with -z nodelete */
}
