/* SPDX-License-Identifier: Apache-2.0 */
/* Name resolution with a time limit; see resolver.h. */
#include "resolver.h"

#include <netdb.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "tools/shared/memory.h"
#include "tools/shared/now.h"
#include "tools/shared/text.h"

/* A query, shared by the caller and a resolver thread that may outlive the wait. Nobody frees it. */
struct question {
	pthread_mutex_t lock;
	pthread_cond_t answered;
	const char *name;
	bool done;
	int error; /* of getaddrinfo */
	struct sockaddr_storage addr;
};

static int look_up(const char *name, int flags, struct sockaddr_storage *addr)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags };
	struct addrinfo *result;
	int error = getaddrinfo(name, NULL, &hints, &result);

	if (error)
		return error;
	memcpy(addr, result->ai_addr, result->ai_addrlen);
	freeaddrinfo(result);
	return 0;
}

static void *answer(void *argument)
{
	struct question *question = argument;
	struct sockaddr_storage addr = { 0 };
	int error = look_up(question->name, 0, &addr);

	pthread_mutex_lock(&question->lock);
	question->error = error;
	question->addr = addr;
	question->done = true;
	pthread_cond_signal(&question->answered);
	pthread_mutex_unlock(&question->lock);
	return NULL;
}

/* Resolves the name in a detached thread and waits for at most RESOLVER_SECONDS. */
static int ask(const char *name, struct sockaddr_storage *addr)
{
	struct question *question = memory_get(sizeof(*question));
	struct timespec limit;
	pthread_t thread;
	int error = EAI_INPROGRESS, waited = 0;

	question->name = text_dup(name);
	pthread_mutex_init(&question->lock, NULL);
	pthread_cond_init(&question->answered, NULL);
	if (pthread_create(&thread, NULL, answer, question))
		return EAI_MEMORY;
	pthread_detach(thread);
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += RESOLVER_SECONDS;
	pthread_mutex_lock(&question->lock);
	while (!question->done && !waited)
		waited = pthread_cond_timedwait(&question->answered, &question->lock, &limit);
	if (question->done) {
		error = question->error;
		*addr = question->addr;
	}
	pthread_mutex_unlock(&question->lock);
	return error;
}

int resolver_ask(const char *name, struct sockaddr_storage *addr, bool *slow)
{
	uint64_t begin_ms;
	int error;

	*slow = false;
	if (!look_up(name, AI_NUMERICHOST, addr))
		return 0;
	begin_ms = now_ms();
	error = ask(name, addr);
	*slow = now_ms() - begin_ms >= RESOLVER_SLOW * 1000;
	return error;
}
