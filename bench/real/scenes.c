/* SPDX-License-Identifier: Apache-2.0 */
/* Scenes: uses of communicators other than one collective after another. */
#include "real.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nccl_net/util.h>

#define SMALL_COUNT 1000
#define COMMS       3
#define REINITS     10
#define NEEDS_TWO   "SKIP: one rank has nobody to talk to"
#define POISON      0xee /* fills the result before a message, and the sent data after it */
#define MARGIN      64 /* bytes after a message that must not change; also the range of its offset */

/* Elements that fit the buffers and keep NCCL busy for some time. */
static size_t large_count(const struct session *s)
{
	size_t bytes = s->area->bytes_max < 4u << 20 ? s->area->bytes_max : 4u << 20;

	return bytes / sizeof(float);
}

static int check_all_reduce(struct session *s, const struct team *t, size_t count)
{
	return collective_check(s, collective_all_reduce(), t, count, &s->wrong);
}

static size_t clamp_count(const struct session *s, size_t count, size_t pieces)
{
	size_t room = s->area->bytes_max / sizeof(float) / pieces;

	return count < room ? count : room;
}

/* Starts several all-reduces and a ring of sends in one group, which NCCL launches together. */
static int start_group(struct session *s, size_t count)
{
	const struct nccl_calls *nccl = &s->libs.nccl;
	const struct team *t = &s->world;
	int next = (t->rank + 1) % t->size, last = (t->rank + t->size - 1) % t->size;
	float *send = (float *)s->send, *recv = (float *)s->recv;
	int ret = nccl_check(s, "ncclGroupStart", nccl->group_start());

	for (size_t i = 0; !ret && i < 2; i++)
		ret = nccl_check(s, "ncclAllReduce",
				 nccl->all_reduce(send + i * count, recv + i * count, count,
						  NCCL_FLOAT32, NCCL_SUM, t->comm, t->stream));
	if (!ret)
		ret = nccl_check(s, "ncclSend",
				 nccl->send(send, count, NCCL_FLOAT32, next, t->comm, t->stream));
	if (!ret)
		ret = nccl_check(s, "ncclRecv",
				 nccl->recv(recv + 2 * count, count, NCCL_FLOAT32, last, t->comm,
					    t->stream));
	return ret ? ret : nccl_check(s, "ncclGroupEnd", nccl->group_end());
}

static float group_expects(const struct session *s, size_t count, size_t i)
{
	const struct team *t = &s->world;

	if (i < 2 * count)
		return collective_all_reduce()->expected(t, count, i, s->seed);
	return collective_value((t->rank + t->size - 1) % t->size, i - 2 * count, s->seed);
}

int scene_groups(struct session *s, char *note, size_t note_bytes)
{
	size_t count = clamp_count(s, SMALL_COUNT, 3);
	const struct cuda_calls *cuda = &s->libs.cuda;
	int ret;

	s->seed++;
	for (size_t i = 0; i < 2 * count; i++)
		s->host[i] = collective_value(s->world.rank, i, s->seed);
	ret = session_upload(s, s->send, s->host, 2 * count * sizeof(float));
	if (!ret)
		ret = start_group(s, count);
	if (!ret)
		ret = team_wait(s, &s->world);
	if (!ret)
		ret = cuda_check(s, "cudaMemcpy",
				 cuda->memcpy(s->host, s->recv, 3 * count * sizeof(float),
					      CUDA_TO_HOST));
	for (size_t i = 0; !ret && i < 3 * count; i++)
		s->wrong += !(s->host[i] == group_expects(s, count, i));
	snprintf(note, note_bytes, "2 all-reduces and a ring of sends in one group");
	return ret;
}

/* Even ranks and odd ranks, each in reverse order. */
static void split_team(const struct session *s, struct team *part)
{
	for (int i = s->world.size - 1; i >= 0; i--) {
		if (i % 2 != s->world.rank % 2)
			continue;
		if (i == s->world.rank)
			part->rank = part->size;
		part->members[part->size++] = i;
	}
}

int scene_splits(struct session *s, char *note, size_t note_bytes)
{
	struct team part = { .stream = s->world.stream };
	int ret;

	if (!s->libs.nccl.comm_split) {
		snprintf(note, note_bytes, "SKIP: this NCCL has no ncclCommSplit");
		return 0;
	}
	split_team(s, &part);
	ret = nccl_check(s, "ncclCommSplit",
			 s->libs.nccl.comm_split(s->world.comm, s->world.rank % 2, -s->world.rank,
						 &part.comm, NULL));
	if (!ret)
		ret = check_all_reduce(s, &part, clamp_count(s, SMALL_COUNT, 1));
	if (!ret)
		ret = check_all_reduce(s, &s->world, clamp_count(s, SMALL_COUNT, 1));
	if (!ret)
		ret = nccl_check(s, "ncclCommDestroy", s->libs.nccl.comm_destroy(part.comm));
	snprintf(note, note_bytes,
		 "even and odd ranks in communicators of their own, then all again");
	return ret;
}

/* Starts a call on all communicators before it waits for any. */
static int use_all(struct session *s, const struct team *teams, size_t count)
{
	const struct real_test *test = collective_all_reduce();
	float *send = (float *)s->send, *recv = (float *)s->recv;
	int ret = 0;

	for (size_t i = 0; !ret && i < COMMS; i++)
		ret = test->start(s, &teams[i], send + i * count, recv + i * count, count);
	for (size_t i = 0; !ret && i < COMMS; i++)
		ret = team_wait(s, &teams[i]);
	for (size_t i = 0; !ret && i < COMMS; i++)
		ret = check_all_reduce(s, &teams[i], count);
	return ret;
}

int scene_comms(struct session *s, char *note, size_t note_bytes)
{
	struct team teams[COMMS];
	int ret = 0;

	for (int i = 0; i < COMMS; i++) {
		teams[i] = s->world;
		teams[i].comm = teams[i].stream = NULL;
	}
	for (int i = 0; !ret && i < COMMS; i++)
		ret = team_open(s, &teams[i]);
	if (!ret)
		ret = use_all(s, teams, clamp_count(s, SMALL_COUNT, COMMS));
	for (int i = 0; !ret && i < COMMS; i++)
		team_close(s, &teams[i]);
	snprintf(note, note_bytes, "%d more communicators at work at once", COMMS);
	return ret;
}

/* --- registered buffers --- */

/* Each size is used twice: at the start of the buffers, and at odd offsets. The last size is the
 * whole buffer. */
static const size_t registered_sizes[] = { 1, 4096, 65537, 1000003, (4u << 20) + 1, SIZE_MAX };

struct message {
	size_t bytes, send_at, recv_at;
};

static struct message message_of(const struct session *s, size_t turn)
{
	struct message m = { registered_sizes[turn / 2], 0, 0 };
	size_t room;

	if (turn % 2) {
		m.send_at = turn * 13 % MARGIN;
		m.recv_at = turn * 29 % MARGIN;
	}
	room = s->bytes - (m.send_at > m.recv_at ? m.send_at : m.recv_at);
	m.bytes = m.bytes < room ? m.bytes : room;
	return m;
}

/* Differs at power-of-two distances, and in the next message. */
static uint8_t byte_value(int rank, size_t i, uint32_t seed)
{
	return (uint8_t)(((uint32_t)i * 2654435761u >> 24) + (uint32_t)rank * 37 + seed * 101);
}

/* Returns how many bytes of `recv` to check: the message, and bytes before and after it that must
 * not change. */
static size_t watched(const struct session *s, const struct message *m)
{
	size_t end = m->recv_at + m->bytes;

	return end + MARGIN < s->bytes ? end + MARGIN : s->bytes;
}

static int prepare_message(struct session *s, const struct message *m)
{
	const struct cuda_calls *cuda = &s->libs.cuda;
	uint8_t *host = (uint8_t *)s->host;
	int ret;

	for (size_t i = 0; i < m->bytes; i++)
		host[i] = byte_value(s->world.rank, i, s->seed);
	ret = cuda_check(s, "cudaMemset", cuda->memset(s->recv, POISON, watched(s, m)));
	return ret ? ret : session_upload(s, s->send + m->send_at, host, m->bytes);
}

/* After completion the sent data may be overwritten; overwriting it reveals late reads. */
static int pass_on(struct session *s, const struct message *m)
{
	const struct nccl_calls *nccl = &s->libs.nccl;
	const struct team *t = &s->world;
	int next = (t->rank + 1) % t->size, last = (t->rank + t->size - 1) % t->size;
	int ret = nccl_check(s, "ncclGroupStart", nccl->group_start());

	if (!ret)
		ret = nccl_check(s, "ncclSend",
				 nccl->send(s->send + m->send_at, m->bytes, NCCL_INT8, next,
					    t->comm, t->stream));
	if (!ret)
		ret = nccl_check(s, "ncclRecv",
				 nccl->recv(s->recv + m->recv_at, m->bytes, NCCL_INT8, last,
					    t->comm, t->stream));
	if (!ret)
		ret = nccl_check(s, "ncclGroupEnd", nccl->group_end());
	if (!ret)
		ret = team_wait(s, t);
	return ret ? ret
		   : cuda_check(s, "cudaMemset",
				s->libs.cuda.memset(s->send + m->send_at, POISON, m->bytes));
}

static int check_message(struct session *s, const struct message *m)
{
	int last = (s->world.rank + s->world.size - 1) % s->world.size;
	const uint8_t *host = (const uint8_t *)s->host;
	size_t end = watched(s, m);
	int ret = cuda_check(s, "cudaMemcpy",
			     s->libs.cuda.memcpy(s->host, s->recv, end, CUDA_TO_HOST));

	for (size_t i = 0; !ret && i < end; i++) {
		bool inside = i >= m->recv_at && i - m->recv_at < m->bytes;

		s->wrong +=
			host[i] != (inside ? byte_value(last, i - m->recv_at, s->seed) : POISON);
	}
	return ret;
}

/* With buffers in GPU memory, NCCL sends and receives directly from and to registered user buffers. */
int scene_registered(struct session *s, char *note, size_t note_bytes)
{
	const struct nccl_calls *nccl = &s->libs.nccl;
	void *comm = s->world.comm, *send = NULL, *recv = NULL;
	const size_t turns = 2 * ARRAY_SIZE(registered_sizes);
	int ret;

	if (!nccl->comm_register) {
		snprintf(note, note_bytes, "SKIP: this NCCL has no ncclCommRegister");
		return 0;
	}
	ret = nccl_check(s, "ncclCommRegister",
			 nccl->comm_register(comm, s->send, s->bytes, &send));
	if (!ret)
		ret = nccl_check(s, "ncclCommRegister",
				 nccl->comm_register(comm, s->recv, s->bytes, &recv));
	for (size_t turn = 0; !ret && turn < turns; turn++) {
		struct message m = message_of(s, turn);

		s->seed++;
		ret = prepare_message(s, &m);
		if (!ret)
			ret = pass_on(s, &m);
		if (!ret)
			ret = check_message(s, &m);
	}
	if (!ret)
		ret = nccl_check(s, "ncclCommDeregister", nccl->comm_deregister(comm, send));
	if (!ret)
		ret = nccl_check(s, "ncclCommDeregister", nccl->comm_deregister(comm, recv));
	snprintf(note, note_bytes, "%zu rings of sends in registered buffers, 1 to %zu bytes",
		 turns, s->bytes);
	return ret;
}

/* --- communicators that end --- */

int scene_reinit(struct session *s, char *note, size_t note_bytes)
{
	int ret = 0;

	for (int i = 0; !ret && i < REINITS; i++) {
		team_close(s, &s->world);
		ret = team_open(s, &s->world);
		if (!ret)
			ret = check_all_reduce(s, &s->world, clamp_count(s, SMALL_COUNT, 1));
	}
	snprintf(note, note_bytes, "destroyed and made again %d times", REINITS);
	return ret;
}

/* Aborts a communicator that may hang, and returns the time it took. */
static int abort_team(struct session *s, struct team *t, double *ms)
{
	uint64_t begin_ns = now_ns();
	int ret = nccl_check(s, "ncclCommAbort", s->libs.nccl.comm_abort(t->comm));

	*ms = (double)(now_ns() - begin_ns) / 1e6;
	t->comm = NULL;
	if (ret)
		return ret;
	team_close(s, t); /* destroys the stream */
	return 0;
}

/* Rank 0 does not join a collective that the others have started; then all abort. */
int scene_abort(struct session *s, char *note, size_t note_bytes)
{
	const struct real_test *test = collective_all_reduce();
	double ms = 0;
	int ret;

	if (s->world.size < 2) {
		snprintf(note, note_bytes, NEEDS_TWO);
		return 0;
	}
	/* NCCL connects the ranks when a collective first needs it, and does not return from that call while one is
	 * missing. */
	ret = check_all_reduce(s, &s->world, large_count(s));
	if (!ret && s->world.rank)
		ret = test->start(s, &s->world, (float *)s->send, (float *)s->recv, large_count(s));
	if (ret || group_barrier(s->group))
		return -GROUP_ERROR;
	ret = abort_team(s, &s->world, &ms);
	s->area->seconds[s->world.rank] = ms / 1e3;
	if (ret || group_barrier(s->group))
		return -GROUP_ERROR;
	for (int i = 0; i < s->world.size; i++)
		ms = s->area->seconds[i] * 1e3 > ms ? s->area->seconds[i] * 1e3 : ms;
	ret = team_open(s, &s->world);
	if (!ret)
		ret = check_all_reduce(s, &s->world, clamp_count(s, SMALL_COUNT, 1));
	snprintf(note, note_bytes, "aborted in %.0f ms while a rank was missing, then made again",
		 ms);
	return ret;
}

/* --- a rank that is killed --- */

/* Runs all-reduces until an error. area->turns counts them for the other ranks. Returns 1 with
 * NCCL's error, which the call itself may return, or a negative value. */
static int work_until_error(struct session *s, int *error)
{
	const struct team *t = &s->world;
	int ret = 0;

	while (!ret) {
		*error = s->libs.nccl.all_reduce(s->send, s->recv, large_count(s), NCCL_FLOAT32,
						 NCCL_SUM, t->comm, t->stream);
		if (*error && *error != NCCL_IN_PROGRESS)
			return 1;
		ret = team_poll(s, t, error);
		if (!ret)
			atomic_fetch_add(&s->area->turns[s->group->rank], 1);
	}
	return ret;
}

/* The process to be killed. Its parent takes its place afterwards. */
static void victim(struct session *s)
{
	int error = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!session_open(s, false))
		work_until_error(s, &error);
	_exit(GROUP_ERROR); /* reached only if it was not killed */
}

static bool all_at_work(const struct session *s)
{
	for (int i = 0; i < s->group->size; i++) {
		if (atomic_load(&s->area->turns[i]) < 3)
			return false;
	}
	return true;
}

static int kill_one(struct session *s)
{
	int status = 0, ret = 0;
	pid_t pid = fork();

	if (!pid)
		victim(s);
	if (pid < 0) {
		group_say(s->group, "cannot start the process that is to be killed");
		return -GROUP_ERROR;
	}
	while (!ret && !all_at_work(s)) {
		group_fed(s->group);
		if (waitpid(pid, &status, WNOHANG) == pid)
			return -GROUP_ERROR;
		ret = group_idle(s->group);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return ret ? -GROUP_ERROR : 0;
}

/* As frameworks do: a rank with an error informs the others, and all abort. */
static void tell(struct session *s, int error)
{
	uint64_t none = 0;

	if (!error)
		return;
	atomic_fetch_add(&s->area->failures, 1);
	atomic_compare_exchange_strong(&s->area->failed_ns, &none, now_ns());
}

static int survive(struct session *s, double *ms)
{
	int error = 0, ret = session_open(s, false);

	if (ret)
		return ret;
	if (work_until_error(s, &error) < 0)
		return -GROUP_ERROR;
	tell(s, error);
	ret = abort_team(s, &s->world, ms);
	if (error && error != NCCL_REMOTE_ERROR)
		group_say(s->group, "killed: the error is %d (%s)", error,
			  s->libs.nccl.get_error_string(error));
	return ret;
}

/* The last rank is killed during collectives; another process takes its place. */
int scene_killed(struct session *s, char *note, size_t note_bytes)
{
	bool last = s->group->rank == s->group->size - 1;
	double ms = 0;
	int ret;

	if (s->group->size < 2) {
		snprintf(note, note_bytes, NEEDS_TWO);
		return 0;
	}
	ret = last ? kill_one(s) : survive(s, &ms);
	if (ret || group_barrier(s->group))
		return -GROUP_ERROR;
	snprintf(
		note, note_bytes,
		"%u of the %d others had an error of their own, rank 0 aborted in %.0f ms, and all "
		"went on in a new one",
		atomic_load(&s->area->failures), s->group->size - 1, ms);
	atomic_store(&s->area->failed_ns, 0);
	if (group_barrier(s->group))
		return -GROUP_ERROR;
	ret = last ? session_open(s, true) : team_open(s, &s->world);
	return ret ? ret : check_all_reduce(s, &s->world, clamp_count(s, SMALL_COUNT, 1));
}
