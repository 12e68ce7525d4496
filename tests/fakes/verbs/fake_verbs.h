/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control of the fake libibverbs (describe.c describes the language). A test opens the library as the plugin does, by
 * its path, so it gets these by dlsym. They apply to this process; fake_verbs_tell reaches other processes on the same
 * wire.
 */
#ifndef FAKE_VERBS_H
#define FAKE_VERBS_H

#include <stddef.h>
#include <stdint.h>

#define FAKE_VERBS_DEVICES 16

struct fake_verbs_counts {
	/* open now: all zero means that nothing has leaked */
	uint64_t lists, contexts, pds, mrs, channels, cqs, qps, cm_ids;
	uint64_t bytes_pinned;
	/* since the start, or fake_verbs_reset */
	uint64_t send_calls;             /* doorbells */
	uint64_t sends, recvs;           /* work requests accepted */
	uint64_t polls, empty_polls, completions, failed_completions;
	uint64_t transmissions, retransmissions, lost, rnr;
	uint64_t registrations, events, cm_connections;
	uint64_t qps_made;
	uint64_t reads_at_once;                  /* maximum of one queue pair */
	uint64_t direct;                         /* registrations for a Data Direct engine */
	uint64_t ragged;                         /* registrations not of whole pages */
	uint64_t gid_reads;                      /* GIDs queried one by one */
	uint64_t orphans;                        /* deregistered after their memory was unmapped */
	uint64_t bytes_sent[FAKE_VERBS_DEVICES]; /* queried, by device as described */
};

/* Executes some lines of the language. 0, or -EINVAL with the reason on stderr. */
int fake_verbs_script(const char *text);

/* Removes the remaining faults and sets the second group of counts to 0. */
void fake_verbs_reset(void);

void fake_verbs_counts(struct fake_verbs_counts *counts);

/* Sends the script to the process `pid` on the wire of that directory, or with 0 to all except this one. Returns how
 * many have executed it, or a negative errno. */
int fake_verbs_tell(const char *directory, int pid, const char *text);

/* The counts of another process. 0 or a negative errno. */
int fake_verbs_ask(const char *directory, int pid, struct fake_verbs_counts *counts);

#endif
