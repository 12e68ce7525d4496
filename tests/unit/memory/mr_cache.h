/* SPDX-License-Identifier: Apache-2.0 */
/* A cache of registrations on a device that registers nothing. */
#ifndef TESTS_UNIT_MEMORY_MR_CACHE_H
#define TESTS_UNIT_MEMORY_MR_CACHE_H

#include <nccl_net/device.h>

#include "fakes/stubs/fake_mr.h"
#include "transports/memory/ib_mr.h"

#define BASE ((uintptr_t)0x7f0000000000)

extern size_t page;
extern struct ib_mr_cache *cache;
extern char why[ANYNET_REASON_BYTES]; /* of the last refusal */
extern const struct memory_id host;

/* For each test, which fails if it leaves a registration. */
int mr_cache_setup(void **state);
int mr_cache_teardown(void **state);

/* Another cache in its place. */
void start(bool relaxed_ordering);

int try_get(uintptr_t addr, size_t bytes, unsigned flags, struct ib_mr **mr);
struct ib_mr *get_at(uintptr_t addr, size_t bytes, unsigned flags);

/* `count` pages from page `first` on. */
struct ib_mr *get_pages(size_t first, size_t count);

void put(struct ib_mr *mr);

/* Refused with this -errno, and `part` in the reason. */
void expect_refused(uintptr_t addr, size_t bytes, int ret, const char *part);

/* The last registration was called like that. */
void expect_last(uintptr_t addr, size_t bytes, int kind, unsigned access);

#endif
