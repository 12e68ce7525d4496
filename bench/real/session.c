/* SPDX-License-Identifier: Apache-2.0 */
/* The process of a rank in a session: environment, GPU memory, communicator, tests. */
#include "real.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "share.h"

#define MEMORY_SHARE 0.7 /* share of the GPU's free memory used for the buffers of all ranks */
#define TOLD_NS      3000000000u
#define ASK_EVERY    64 /* stream queries between two queries of the communicator's error */

int nccl_check(struct session *s, const char *call, int result)
{
	if (!result || result == NCCL_IN_PROGRESS)
		return 0;
	group_say(s->group, "%s: %s (%d)", call, s->libs.nccl.get_error_string(result), result);
	return -GROUP_ERROR;
}

int cuda_check(struct session *s, const char *call, int result)
{
	if (!result)
		return 0;
	group_say(s->group, "%s: %s (%d)", call, s->libs.cuda.get_error_string(result), result);
	return -GROUP_ERROR;
}

int session_upload(struct session *s, void *to, const void *from, size_t bytes)
{
	int ret = cuda_check(s, "cudaMemcpy", s->libs.cuda.memcpy(to, from, bytes, CUDA_TO_DEVICE));

	return ret ? ret
		   : cuda_check(s, "cudaDeviceSynchronize", s->libs.cuda.device_synchronize());
}

/* True if another rank reported an error long ago. A rank without a connection to the lost one sees
 * no error itself. */
static bool is_told(const struct session *s)
{
	uint64_t failed_ns = atomic_load(&s->area->failed_ns);

	return failed_ns && now_ns() - failed_ns > TOLD_NS;
}

int team_poll(struct session *s, const struct team *t, int *error)
{
	for (unsigned looks = 1;; looks++) {
		int result = s->libs.cuda.stream_query(t->stream);

		if (result != CUDA_NOT_READY) {
			group_fed(s->group);
			return cuda_check(s, "cudaStreamQuery", result);
		}
		*error = 0;
		if (looks % ASK_EVERY == 0 &&
		    nccl_check(s, "ncclCommGetAsyncError",
			       s->libs.nccl.comm_get_async_error(t->comm, error)))
			return -GROUP_ERROR;
		if ((*error && *error != NCCL_IN_PROGRESS) || is_told(s))
			return 1;
		if (group_idle(s->group))
			return -GROUP_ERROR;
	}
}

int team_wait(struct session *s, const struct team *t)
{
	int error = 0, ret = team_poll(s, t, &error);

	return ret > 0 ? nccl_check(s, "NCCL has an asynchronous error", error) : ret;
}

int team_open(struct session *s, struct team *t)
{
	int ret = 0;

	if (t->rank == 0)
		ret = nccl_check(s, "ncclGetUniqueId", s->libs.nccl.get_unique_id(&s->area->id));
	if (ret || group_barrier(s->group))
		return -GROUP_ERROR;
	ret = nccl_check(s, "ncclCommInitRank",
			 s->libs.nccl.comm_init_rank(&t->comm, t->size, s->area->id, t->rank));
	if (!ret)
		ret = cuda_check(s, "cudaStreamCreateWithFlags",
				 s->libs.cuda.stream_create(&t->stream, CUDA_NONBLOCKING));
	/* Rank 0 must not create the next id before all ranks have read this one. */
	if (ret || group_barrier(s->group))
		return -GROUP_ERROR;
	return 0;
}

void team_close(struct session *s, struct team *t)
{
	if (t->comm)
		nccl_check(s, "ncclCommDestroy", s->libs.nccl.comm_destroy(t->comm));
	if (t->stream)
		cuda_check(s, "cudaStreamDestroy", s->libs.cuda.stream_destroy(t->stream));
	t->comm = t->stream = NULL;
}

/* Rank 0 chooses before any rank allocates memory; ranks that join later use the same size. */
static int choose_size(struct session *s)
{
	size_t free_bytes = 0, total = 0, share;

	if (s->group->rank == 0) {
		if (cuda_check(s, "cudaMemGetInfo", s->libs.cuda.mem_get_info(&free_bytes, &total)))
			return -GROUP_ERROR;
		share = (size_t)((double)free_bytes * MEMORY_SHARE) / 2 / (size_t)s->group->size;
		s->area->bytes_max = s->opts->bytes_max;
		while (s->area->bytes_max > share && s->area->bytes_max > s->opts->bytes_min)
			s->area->bytes_max /= 2;
		if (s->area->bytes_max < s->opts->bytes_max)
			group_say(s->group, "the GPU has %zu MiB free: sizes end at %zu bytes",
				  free_bytes >> 20, s->area->bytes_max);
	}
	return group_barrier(s->group) ? -GROUP_ERROR : 0;
}

/* At least one element for each rank, since smaller sizes are rounded up. */
static int allocate(struct session *s)
{
	size_t least = REAL_RANKS_MAX * sizeof(float);
	size_t bytes = s->area->bytes_max > least ? s->area->bytes_max : least;
	int ret;

	s->host = malloc(bytes);
	if (!s->host) {
		group_say(s->group, "no memory for %zu bytes", bytes);
		return -GROUP_ERROR;
	}
	ret = cuda_check(s, "cudaMalloc", s->libs.cuda.malloc((void **)&s->send, bytes));
	if (!ret)
		ret = cuda_check(s, "cudaMalloc", s->libs.cuda.malloc((void **)&s->recv, bytes));
	/* Calls before the first check send initialised data too. */
	if (!ret)
		ret = cuda_check(s, "cudaMemset", s->libs.cuda.memset(s->send, 0, bytes));
	s->bytes = bytes;
	return ret;
}

int session_open(struct session *s, bool again)
{
	int devices = 0, ret;
	char err[700];

	if (libs_open(&s->libs, s->opts->nccl, s->opts->cudart, err, sizeof(err))) {
		group_say_once(s->group, "%s", err);
		return -GROUP_ERROR;
	}
	ret = cuda_check(s, "cudaGetDeviceCount", s->libs.cuda.get_device_count(&devices));
	if (!ret && s->opts->device >= devices) {
		group_say_once(s->group, "GPU %d was requested, but there are %d", s->opts->device,
			       devices);
		return -GROUP_ERROR;
	}
	if (!ret)
		ret = cuda_check(s, "cudaSetDevice", s->libs.cuda.set_device(s->opts->device));
	if (!ret)
		ret = nccl_check(s, "ncclGetVersion",
				 s->libs.nccl.get_version(&s->area->nccl_version));
	if (!ret && !again)
		ret = choose_size(s);
	if (!ret)
		ret = allocate(s);
	if (ret)
		return ret;
	snprintf(s->area->nccl_path, sizeof(s->area->nccl_path), "%s", s->libs.nccl_path);
	s->world.size = s->group->size;
	s->world.rank = s->group->rank;
	for (int i = 0; i < s->world.size; i++)
		s->world.members[i] = i;
	return team_open(s, &s->world);
}

static void session_close(struct session *s)
{
	team_close(s, &s->world);
	if (s->send)
		cuda_check(s, "cudaFree", s->libs.cuda.free(s->send));
	if (s->recv)
		cuda_check(s, "cudaFree", s->libs.cuda.free(s->recv));
	free(s->host);
}

static int run_scene(struct session *s, int test)
{
	char note[sizeof(s->area->notes[0])] = "";
	uint64_t before = s->wrong;
	int ret = real_tests[test].scene(s, note, sizeof(note));

	if (s->wrong > before)
		group_say(s->group, "%s: %llu elements are wrong", real_tests[test].name,
			  (unsigned long long)(s->wrong - before));
	if (!ret && s->group->rank == 0)
		memcpy(s->area->notes[test], note, sizeof(note));
	return ret;
}

static int run_sizes(struct session *s, int test)
{
	int ret = 0;

	for (size_t bytes = s->opts->bytes_min; !ret && bytes <= s->area->bytes_max;
	     bytes *= (size_t)s->opts->factor)
		ret = collective_measure(s, test, bytes);
	return ret;
}

static int run_tests(struct session *s, unsigned tests)
{
	int ret = session_open(s, false);

	if (!ret && s->opts->cut_ms && !s->net->builtin)
		ret = cut_start(s, s->opts->cut_ms);
	for (int i = 0; !ret && i < real_test_count; i++) {
		if (tests >> i & 1)
			ret = real_tests[i].scene ? run_scene(s, i) : run_sizes(s, i);
	}
	cut_stop();
	if (!ret)
		session_close(s);
	return ret;
}

/* --- the process --- */

struct plan {
	const struct real_options *opts;
	const struct real_session *which;
};

/* Sets a variable unless the user has set it. */
static void set_default(const char *name, const char *value)
{
	setenv(name, value, 0);
}

/* All ranks on one GPU, each a separate host to NCCL (net-api.md §7.2). */
static void set_environment(const struct plan *plan, const struct real_net *net, int rank)
{
	char text[600];

	snprintf(text, sizeof(text), "anynet-host-%d", rank);
	setenv("NCCL_HOSTID", text, 1);
	proof_path(plan->opts, plan->which, rank, text, sizeof(text));
	unlink(text); /* the log of an earlier run proves nothing */
	setenv("NCCL_DEBUG_FILE", text, 1);
	setenv("NCCL_DEBUG", "INFO", 1);
	setenv("NCCL_DEBUG_SUBSYS", "INIT,NET,ENV,REG", 1);
	set_default("NCCL_SOCKET_IFNAME", "lo");
	set_default("NCCL_MAX_NCHANNELS", "2"); /* small kernels, since they share the GPU in turns */
	set_default("NCCL_P2P_DISABLE", "1");
	set_default("NCCL_SHM_DISABLE", "1");
	set_default("NCCL_MNNVL_ENABLE", "0");
	set_default("NCCL_NVLS_ENABLE", "0");
	set_default("NCCL_RAS_ENABLE", "0");
	setenv("NCCL_NET_PLUGIN", net->builtin ? "none" : net->spec, 1);
	if (plan->opts->cut_ms && !net->builtin && !getenv("ANYNET_PORT_RANGE")) {
		cut_port_range(text, sizeof(text));
		setenv("ANYNET_PORT_RANGE", text, 1);
	}
	net_set_environment(net->text);
}

static int rank_main(struct group *g, void *arg)
{
	const struct plan *plan = arg;
	struct session s = { .group = g,
			     .area = g->area,
			     .opts = plan->opts,
			     .net = &plan->opts->nets[plan->which->net] };
	int ret = 0;

	set_environment(plan, s.net, g->rank);
	for (int i = 0; i < real_test_count; i++) {
		if ((plan->which->tests >> i & 1) && real_tests[i].alone) {
			ret = run_scene(&s, i);
			if (!ret)
				session_close(&s);
			goto out;
		}
	}
	ret = run_tests(&s, plan->which->tests);
out:
	if (ret)
		return GROUP_ERROR;
	return s.wrong ? GROUP_WRONG : GROUP_OK;
}

int session_run(struct group *g, const struct real_options *opts, const struct real_session *which)
{
	struct plan plan = { opts, which };
	struct real_area *area;
	int err = group_create(g, "real_bench", opts->ranks, sizeof(*area)), result;

	if (err) {
		g->shared = NULL;
		fprintf(stderr, "real_bench: no shared memory: %s\n", strerror(-err));
		return GROUP_ERROR;
	}
	g->deadline_ns = (uint64_t)opts->limit_s * 1000000000u;
	result = group_run(g, rank_main, &plan);
	area = g->area;
	for (int i = 0; result == GROUP_OK && i < area->row_count; i++) {
		if (area->rows[i].wrong)
			result = GROUP_WRONG;
	}
	return result;
}
