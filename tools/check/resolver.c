/* SPDX-License-Identifier: Apache-2.0 */
/* Name resolution with a time limit; see resolver.h. */
#include "resolver.h"

#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RESOLVE_SECONDS 1 /* a slower name server is a finding of its own */

/* A query, shared by the caller and a resolver thread that may outlive the wait. The last of the
 * two to release it frees it. */
struct question {
	pthread_mutex_t lock;
	pthread_cond_t answered;
	int holders;
	char *name;
	bool done;
	int error; /* of getaddrinfo */
	struct sockaddr_storage addr;
};

/* Called with the lock held; releases it. */
static void let_go(struct question *question)
{
	bool last = !--question->holders;

	pthread_mutex_unlock(&question->lock);
	if (!last)
		return;
	pthread_mutex_destroy(&question->lock);
	pthread_cond_destroy(&question->answered);
	free(question->name);
	free(question);
}

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
	let_go(question);
	return NULL;
}

/* Resolves the name in a detached thread and waits for at most RESOLVE_SECONDS. */
static int ask(const char *name, struct sockaddr_storage *addr)
{
	struct question *question = calloc(1, sizeof(*question));
	struct timespec limit;
	pthread_t thread;
	int error = EAI_AGAIN, waited = 0;

	if (!question)
		return EAI_MEMORY;
	*question = (struct question){ .holders = 2, .name = strdup(name) };
	pthread_mutex_init(&question->lock, NULL);
	pthread_cond_init(&question->answered, NULL);
	if (pthread_create(&thread, NULL, answer, question)) {
		pthread_mutex_lock(&question->lock);
		question->holders = 1;
		let_go(question);
		return EAI_MEMORY;
	}
	pthread_detach(thread);
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += RESOLVE_SECONDS;
	pthread_mutex_lock(&question->lock);
	while (!question->done && !waited)
		waited = pthread_cond_timedwait(&question->answered, &question->lock, &limit);
	if (question->done) {
		error = question->error;
		*addr = question->addr;
	}
	let_go(question);
	return error;
}

int resolver_ask(const char *name, struct sockaddr_storage *addr)
{
	return look_up(name, AI_NUMERICHOST, addr) ? ask(name, addr) : 0;
}
