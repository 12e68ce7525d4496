/* SPDX-License-Identifier: Apache-2.0 */
/* Real logs: interleaved ranks, lines that are truncated, long, torn or hostile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reading.h"
#include "tools/shared/clean.h"

#define WARN_12                                                                                \
	"transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<4321> " \
	"with status=12 opcode=32631 len=0 vendor err 129 (Send) hca mlx5_0"

static struct report *read_text(const char *text)
{
	return reading_report(text, strlen(text), SCAN_BLOCK);
}

static void check_who(const struct report *report, const char *id, const char *who)
{
	const struct finding *f = reading_find(report, id);

	assert_non_null(f);
	assert_string_equal(report_who(report, &f->sources), who);
}

static void ranks_interleaved(void **state)
{
	struct report *report = read_text(
		"node1:10:11 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 4 cudaDev 0\n"
		"node2:20:21 [1] NCCL INFO ncclCommInitRank comm 0x2 rank 3 nranks 4 cudaDev 1\n"
		"node2:20:22 [0] NCCL INFO ncclCommInitRank comm 0x2 rank 2 nranks 4 cudaDev 0\n"
		/* A smaller communicator does not change the ranks of processes. */
		"node2:20:22 [0] NCCL INFO ncclCommInitRank comm 0x9 rank 0 nranks 2 cudaDev 0\n"
		"[rank1]:[E305 10:00:02.0 ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught "
		"collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=1, "
		"NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.\n"
		"node2:20:23 [1] " WARN_12 "\n"
		"node2:20:23 [0] " WARN_12 "\n"
		"node2:20:23 [1] NCCL INFO transport/net_ib.cc:1295 -> 6\n"
		"[rank0]: torch.distributed.DistBackendError: NCCL error in: x.cpp:9, remote process "
		"exited or there was a network error, NCCL version 2.21.5\n");

	(void)state;
	assert_int_equal(report->error_count, 1);
	assert_string_equal(report->errors[0]->rule->id, "ib-retry-exceeded");
	assert_int_equal(report->errors[0]->count, 2);
	assert_int_equal(report->errors[0]->first.line, 6);
	check_who(report, "ib-retry-exceeded", "ranks 2-3 on node2");
	check_who(report, "watchdog-timeout", "rank 1");
	assert_int_equal(report->errors[0]->follow_count, 3);
	assert_string_equal(report->errors[0]->follows[0]->rule->id, "watchdog-timeout");
	assert_int_equal(report_status(report), 2);
}

static void prefixes(void **state)
{
	static const struct {
		const char *line, *who;
	} cases[] = {
		{ "RuntimeError: CUDA error: out of memory", "" },
		{ "3: RuntimeError: CUDA error: out of memory", "rank 3" },
		{ "12: node7:4120:4160 [3] NCCL WARN Cuda failure 2 'out of memory'",
		  "rank 12 on node7" },
		{ "node7.cluster: RuntimeError: CUDA error: out of memory", "on node7.cluster" },
		{ "[E ProcessGroupNCCL.cpp:828] [Rank 9] CUDA error: out of memory", "rank 9" },
		{ "RuntimeError: CUDA error: out of memory, as [rank9] says", "" },
		{ "[rank5]: RuntimeError: CUDA error: out of memory", "rank 5" },
		/* The label counts launchers, each of which has several ranks. */
		{ "3: [rank29]: RuntimeError: CUDA error: out of memory", "rank 29" },
		{ "[1,3]<stderr>:[rank29]: RuntimeError: CUDA error: out of memory", "rank 29" },
		/* A rank in a process group. */
		{ "3: [E ProcessGroupNCCL.cpp:828] [Rank 0] CUDA error: out of memory", "rank 3" },
		{ "[1,6]<stderr>:RuntimeError: CUDA error: out of memory", "rank 6" },
		{ "2025-03-05T10:00:00.123Z 4: CUDA error: out of memory", "rank 4" },
		{ "[2025-03-05 10:00:00,123] [rank4]: CUDA error: out of memory", "rank 4" },
		{ "(TrainWorker pid=991, ip=10.0.0.3) CUDA error: out of memory",
		  "on 10.0.0.3, process 991" },
		{ "gpu-a-1:7:8 [0] include/alloc.h:1 NCCL WARN Cuda failure 2 'out of memory'",
		  "on gpu-a-1, process 7" },
		{ "\033[31m[rank8]: CUDA error: \033[1mout of memory\033[0m", "rank 8" },
		{ "[rank: 2] CUDA error: out of memory", "rank 2" },
		{ "[rank99999999999]: CUDA error: out of memory", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct report *report = read_text(cases[i].line);
		const struct finding *f = reading_find(report, "cuda-out-of-memory");
		const char *who = f ? report_who(report, &f->sources) : "";

		if (!f)
			fail_msg("not found: %s", cases[i].line);
		if (strcmp(who, cases[i].who) != 0)
			fail_msg("'%s' instead of '%s' in: %s", who, cases[i].who, cases[i].line);
	}
}

/* With several files, ordered by the times in the lines, whichever file is read first. */
static void first_of_two_files(void **state)
{
	const char *late =
		"2025-03-05 10:00:09 [rank1]: CUDA error: device-side assert triggered\n";
	const char *early = "E0305 10:00:01.5 [rank2]: an illegal memory access was encountered\n"
			    "[2025-03-05T10:00:12] [rank2]: device-side assert triggered\n";
	struct report *report = reading_report_of_two(late, early);

	(void)state;
	assert_int_equal(report->error_count, 2);
	assert_string_equal(report->errors[0]->rule->id, "cuda-illegal-access");
	assert_int_equal(report->errors[1]->first.file, 0);
	report = reading_report_of_two(early, late);
	assert_string_equal(report->errors[1]->rule->id, "cuda-assert");
	assert_int_equal(report->errors[1]->first.file, 1);
}

static void values_that_differ(void **state)
{
	struct report *same = read_text("a:1:1 [0] NCCL INFO NCCL version 2.19.3+cuda12.3\n"
					"[rank1]: DistBackendError: x, NCCL version 2.19.3\n"
					"b:2:2 [0] NCCL INFO NCCL version 2.19.3+cuda12.3\n");
	struct report *differ = read_text("a:1:1 [0] NCCL INFO NCCL version 2.19.3+cuda12.3\n"
					  "b:2:2 [0] NCCL INFO NCCL version 2.14.3+cuda11.7\n");
	struct report *failed = read_text("a:1:1 [0] NCCL INFO Using network IB\n"
					  "b:2:2 [0] NCCL INFO Using network Socket\n"
					  "b:2:2 [0] NCCL WARN wrong type 4 != 3\n");

	(void)state;
	assert_int_equal(same->warning_count, 0);
	assert_int_equal(differ->warning_count, 1);
	assert_int_equal(differ->warnings[0]->value_count, 2);
	assert_string_equal(differ->warnings[0]->values[1].text, "2.14.3");
	assert_int_equal(failed->error_count, 2);
	assert_string_equal(failed->errors[0]->rule->id, "net-differs");
}

static void consequence_without_cause(void **state)
{
	struct report *report =
		read_text("[rank1]: unhandled system error, NCCL version 2.19.3\n"
			  "a:1:1 [0] NCCL WARN x: Connection closed by remote peer b<1>\n");

	(void)state;
	assert_int_equal(report->error_count, 1);
	assert_string_equal(report->errors[0]->rule->id, "peer-closed");
	assert_int_equal(report->errors[0]->follow_count, 1);
	assert_int_equal(report_status(report), 2);
}

/* A consequence is listed below the first cause before it; without one, below the first cause of all. */
static void consequence_below_its_cause(void **state)
{
	struct report *report = read_text(
		"a:1:1 [0] NCCL INFO init.cc:126 -> 5\n"
		"a:1:1 [0] bootstrap.cc:114 NCCL WARN Bootstrap : no socket interface found\n"
		"ncclGetUniqueId: invalid usage (run with NCCL_DEBUG=WARN for details)\n"
		"b:2:2 [0] init.cc:2053 NCCL WARN Cuda failure 'CUDA driver version is insufficient "
		"for CUDA runtime version'\n"
		"ncclCommInitRank: unhandled cuda error (run with NCCL_DEBUG=INFO for details)\n");

	(void)state;
	assert_int_equal(report->error_count, 2);
	assert_string_equal(report->errors[0]->rule->id, "cuda-driver-too-old");
	assert_int_equal(report->errors[0]->follow_count, 2);
	assert_string_equal(report->errors[0]->follows[0]->rule->id, "nccl-cuda-error");
	assert_string_equal(report->errors[0]->follows[1]->rule->id, "nccl-stack");
	assert_int_equal(report->errors[1]->follow_count, 1);
	assert_string_equal(report->errors[1]->follows[0]->rule->id, "nccl-invalid-usage");
}

/* --- malformed lines --- */

static void progress_bars(void **state)
{
	struct report *report =
		read_text("Epoch 0:  10%|# | 1/10\rEpoch 0:  20%|## | 2/10\ra:1:1 [0] NCCL WARN "
			  "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000\r\n"
			  "\r\n[rank7]: CUDA error: out of memory\n");
	const struct finding *f = reading_find(report, "duplicate-gpu");

	(void)state;
	assert_non_null(f);
	assert_int_equal(f->first.line, 1);
	assert_true(!strncmp(f->message, "a:1:1 [0] NCCL WARN", 19));
	assert_int_equal(reading_find(report, "cuda-out-of-memory")->first.line, 3);
	assert_int_equal(report->lines, 3);
	check_who(report, "cuda-out-of-memory", "rank 7");
}

/* The findings do not depend on where a block of input ends. */
static void any_block_size(void **state)
{
	static const char text[] =
		"\033[32mnode1:10:11 [0]\033[0m NCCL INFO NCCL version 2.19.3\n\n"
		"node1:10:11 [0] " WARN_12 "\n"
		"[rank3]: RuntimeError: CUDA error: out of memory\n"
		"\r\rnode1:10:11 [0] NCCL INFO Failed to open libibverbs.so[.1]";

	(void)state;
	for (size_t block = 256; block < 1200; block++) {
		struct report *report = reading_report(text, sizeof(text) - 1, block);

		assert_int_equal(report->lines, 5);
		assert_int_equal(report->error_count, 2);
		assert_int_equal(report->harmless_count, 1);
		assert_int_equal(report->errors[0]->first.line, 4);
		assert_int_equal(report->errors[1]->first.line, 3);
		assert_int_equal(report->harmless[0]->first.line, 5);
		check_who(report, "ib-retry-exceeded", "on node1, process 10");
	}
}

static void long_lines(void **state)
{
	const size_t bytes = 5 << 20;
	char *text = malloc(bytes + 1);
	struct report *report;

	(void)state;
	assert_non_null(text);
	memset(text, 'x', bytes);
	for (size_t i = 100; i < bytes; i += 100)
		text[i] = ' ';
	memcpy(text, "node3:7:8 [2] ", 14);
	memcpy(text + (3 << 20) + 11, " CUDA error: out of memory ", 27);
	memcpy(text + bytes - 60, "\n[rank1]: invalid device ordinal\n", 33);
	report = reading_report(text, bytes, SCAN_BLOCK);
	assert_int_equal(reading_find(report, "cuda-out-of-memory")->count, 1);
	assert_int_equal(reading_find(report, "cuda-out-of-memory")->first.line, 1);
	check_who(report, "cuda-out-of-memory", "on node3, process 7");
	assert_int_equal(reading_find(report, "cuda-device-ordinal")->first.line, 2);
	assert_int_equal(report->lines, 3);
	free(text);
}

/* The report contains no control characters of a terminal, and no invalid UTF-8. */
static void hostile_bytes(void **state)
{
	static const char text[] =
		"\0\0\0\0node1:1:2 [0] NCCL WARN Duplicate GPU detected : rank 1\x07 and rank 0 both on "
		"CUDA device \x1b[2J\x9b\x9d\xc2\x9b\xe2\x80\xae\xff\xfe\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\n"
		"\x1b]0;title\x07[rank2]: CUDA error: \x1b[38;5;196mout of memory \x08\x08\xe2\x82\n"
		"\x1b[";
	static const char call[] =
		"NCCL WARN Call to ibv_alloc_pd failed with \x1b]8;;http://x\x1b\\why\x01\x02\n";
	struct report *report = reading_report(text, sizeof(text) - 1, SCAN_BLOCK);
	const struct finding *f = reading_find(report, "cuda-out-of-memory");

	(void)state;
	assert_non_null(f);
	for (const char *p = f->message; *p; p++)
		assert_true((unsigned char)*p >= ' ' && *p != 0x7f);
	assert_string_equal(f->message, "[rank2]: CUDA error: out of memory ????");
	assert_null(reading_find(report, "duplicate-gpu"));
	report = reading_report(call, sizeof(call) - 1, SCAN_BLOCK);
	assert_string_equal(reading_find(report, "ib-call")->why,
			    "NCCL requires this call for InfiniBand or RoCE: why??.");
}

static void clean_text(void **state)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{ "a\tb\nc\x7f", "a b?c?" },
		{ "gr\xc3\xbc\xc3\x9f \xe2\x9c\x93 \xf0\x9f\x9a\x80",
		  "gr\xc3\xbc\xc3\x9f \xe2\x9c\x93 \xf0\x9f\x9a\x80" },
		{ "\xc2\x9b[2J", "?[2J" },                         /* C1 */
		{ "\xe2\x80\xae\xe2\x81\xa6\xef\xbb\xbf", "???" }, /* direction marks, BOM */
		{ "\xed\xa0\x80", "???" },                         /* a surrogate */
		{ "\xc0\xaf\xe0\x80\xaf", "?????" },               /* overlong forms */
		{ "\xf4\x90\x80\x80", "????" },                    /* beyond U+10FFFF */
		{ "\xe2\x82", "??" },                              /* truncated */
	};
	char out[64];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		assert_int_equal(clean(out, sizeof(out), rows[i].in, strlen(rows[i].in)),
				 strlen(rows[i].out));
		assert_string_equal(out, rows[i].out);
	}
	/* Truncated between characters. */
	assert_int_equal(clean(out, 8,
			       "abc\xe2\x9c\x93"
			       "defgh",
			       11),
			 6);
	assert_string_equal(out, "abc…");
}

/* More processes than can be distinguished, and a rule that matches every line. */
static void many_sources(void **state)
{
	char *text = malloc(8 << 20), *p = text;
	struct report *report;

	(void)state;
	assert_non_null(text);
	for (int i = 1; i <= 70000; i++)
		p += sprintf(p, "n%d:%d:1 [0] NCCL WARN Too many open files\n", i % 500, i);
	report = reading_report(text, (size_t)(p - text), SCAN_BLOCK);
	assert_int_equal(reading_find(report, "too-many-files")->count, 70000);
	assert_int_equal(report->sources.count, SOURCES_MAX);
	assert_string_equal(report_who(report, &reading_find(report, "too-many-files")->sources),
			    "on n1, n2, n3, n4, n5, n6, n7, n8, …");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_interleaved),
		cmocka_unit_test(prefixes),
		cmocka_unit_test(first_of_two_files),
		cmocka_unit_test(values_that_differ),
		cmocka_unit_test(consequence_without_cause),
		cmocka_unit_test(consequence_below_its_cause),
		cmocka_unit_test(progress_bars),
		cmocka_unit_test(any_block_size),
		cmocka_unit_test(long_lines),
		cmocka_unit_test(hostile_bytes),
		cmocka_unit_test(clean_text),
		cmocka_unit_test(many_sources),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
