/* SPDX-License-Identifier: Apache-2.0 */
/* The first cause: causes and consequences by layer, order and process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "reading.h"

#define CLOSED \
	"b:2:3 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer a<1>\n"
#define REFUSED \
	"b:2:3 [0] NCCL WARN Call to connect to 10.0.0.2<43210> failed : Connection refused\n"
#define STRANGE "a:1:2 [0] graph/topo.cc:99 NCCL WARN Something that nobody has met yet\n"

static struct report *read_text(const char *text)
{
	return reading_report(text, strlen(text), SCAN_BLOCK);
}

static void check_first(const char *text, const char *id, enum confidence confidence)
{
	struct report *report = read_text(text);

	if (!report->error_count)
		fail_msg("no error in: %s", text);
	if (strcmp(report->errors[0]->rule->id, id) != 0)
		fail_msg("%s instead of %s in: %s", report->errors[0]->rule->id, id, text);
	if (report->errors[0]->confidence != confidence)
		fail_msg("%s is %s in: %s", id,
			 report_confidence_text(report->errors[0]->confidence), text);
}

/* An error of the program takes precedence over later network errors, but not over earlier ones. */
static void program_error_first(void **state)
{
	(void)state;
	check_first("[rank1]: KeyError: 'loss'\n" REFUSED, "exception", CONFIDENCE_LIKELY);
	check_first(REFUSED "[rank1]: KeyError: 'loss'\n", "socket-refused", CONFIDENCE_CERTAIN);
	check_first("[rank1]: KeyError: 'loss'\n" CLOSED, "exception", CONFIDENCE_LIKELY);
	check_first(CLOSED "[rank1]: KeyError: 'loss'\n", "exception", CONFIDENCE_LIKELY);
	check_first("[rank1]: KeyError: 'loss'\n[rank1]: CUDA out of memory\n",
		    "cuda-out-of-memory", CONFIDENCE_LIKELY);
	check_first("ERROR 05-29 04:08:22 core.py:145] mine.OddError: odd\n", "exception",
		    CONFIDENCE_LIKELY);
	check_first("[rank1]: OddError: run with NCCL_DEBUG=INFO, ValueError: x\n", "exception",
		    CONFIDENCE_LIKELY);
	check_first("a.out: x.c:9: f: Assertion `n > 0' failed.\n" CLOSED, "assertion",
		    CONFIDENCE_LIKELY);
}

/* The source lines of a traceback, and what a logger marks as no error, are no failure. */
static void handled_errors_are_ignored(void **state)
{
	static const char *const lines[] = {
		"    except KeyError: pass",
		"    raise AssertionError('x')",
		"    except AssertionError:",
		"INFO could not save: ValueError: x is retried",
		"WARNING: apex not available: ModuleNotFoundError: No module named 'apex'",
		"[2025-03-05 10:00:00,123] [WARNING] [x.py:3] no kernels: ImportError: libx.so",
		"[W305 10:00:00.1 x.py:3] could not save: OSError: quota",
		"x.py:3: UserWarning: failed to load: mine.OddException('x')",
		"Error: something",
		"the KeyError: is gone",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		if (report_status(read_text(lines[i])))
			fail_msg("an error in: %s", lines[i]);
}

/* `text`, then lines without a meaning, then `end`. */
static const char *with_lines(const char *text, int lines, const char *end)
{
	static char all[65536];
	size_t bytes = (size_t)snprintf(all, sizeof(all), "%s", text);

	for (int i = 0; i < lines; i++)
		bytes +=
			(size_t)snprintf(all + bytes, sizeof(all) - bytes, "step %d loss 2.5\n", i);
	snprintf(all + bytes, sizeof(all) - bytes, "%s", end);
	return all;
}

/* An exception, or an unknown warning, is a failure only if a failure or the end of the log comes soon after it. */
static void survived_errors_are_warnings(void **state)
{
	static const char apex[] = "Traceback (most recent call last):\n"
				   "ModuleNotFoundError: No module named 'apex'\n";
	static const char two[] = "ModuleNotFoundError: No module named 'apex'\n"
				  "ImportError: no module flash_attn\n" STRANGE;
	static const char retry[] =
		"b:1:2 [0] NCCL WARN NET/IB : Got completion from peer b<1> with status=12 opcode=0 len=0\n";
	struct report *report = read_text(with_lines(apex, 900, ""));

	(void)state;
	assert_int_equal(report_status(report), 1);
	assert_string_equal(report->warnings[0]->rule->id, "exception");
	report = read_text(with_lines(two, 900, ""));
	assert_int_equal(report->error_count, 0);
	assert_int_equal(report->warning_count, 3);
	check_first(with_lines(apex, 900, retry), "ib-retry-exceeded", CONFIDENCE_CERTAIN);
	check_first(with_lines(apex, 100, retry), "exception", CONFIDENCE_LIKELY);
	check_first(with_lines(apex, 100, ""), "exception", CONFIDENCE_LIKELY);
	check_first(with_lines(two, 900, CLOSED), "peer-closed", CONFIDENCE_CONSEQUENCE);
	check_first(with_lines(STRANGE, 900, "NCCL WARN Fatal and unknown\n" CLOSED), "nccl-warn",
		    CONFIDENCE_LIKELY);
	report = read_text(with_lines(STRANGE, 900, "NCCL WARN Fatal and unknown\n" CLOSED));
	assert_int_equal(report->errors[0]->first.line, 902);
	assert_int_equal(report->warnings[0]->first.line, 1);
	/* The same line again, at the end. */
	check_first(with_lines(apex, 900, apex), "exception", CONFIDENCE_LIKELY);
	/* The logs of more processes are longer. */
	check_first(with_lines("a:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0\n"
			       "[rank1]: KeyError: 'loss'\n",
			       300, retry),
		    "exception", CONFIDENCE_LIKELY);
}

#define RETRY                                                                        \
	"b:1:2 [0] NCCL WARN NET/IB : Got completion from peer b<1> with status=12 " \
	"opcode=0 len=0\n"

/* An error that was handled, or was over after a retry, is not the cause of what comes much later. */
static void handled_errors_are_warnings(void **state)
{
	static const char *const texts[] = {
		"wandb: WARNING OSError: [Errno 28] No space left on device: '/root/.cache'\n",
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
		"Permission denied (publickey,password).\n",
		"ERROR:asyncio:Too many open files, retrying\n",
		"OSError: [Errno 98] Address already in use\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		if (report_status(read_text(with_lines(texts[i], 900, ""))) != 1)
			fail_msg("not a warning: %s", texts[i]);
		check_first(with_lines(texts[i], 900, RETRY), "ib-retry-exceeded",
			    CONFIDENCE_CERTAIN);
		assert_int_equal(report_status(read_text(with_lines(texts[i], 100, ""))), 2);
	}
	/* The host itself failed: nothing goes on for long. */
	check_first(with_lines("NVRM: Xid (PCI:0000:af:00): 94, pid=991, Contained: SM\n", 900,
			       RETRY),
		    "xid-memory", CONFIDENCE_CERTAIN);
}

/* Torch repeats attempts to connect. Only if it gives up, they show the cause. */
static void attempts_are_warnings(void **state)
{
	static const struct {
		const char *text, *id;
	} rows[] = {
		{ "[W socket.cpp:697] [c10d] The client socket has failed to connect to "
		  "[localhost]:29500 (errno: 99 - Cannot assign requested address).\n",
		  "master-attempt" },
		{ "[W socket.cpp:697] [c10d] The client socket has failed to connect to "
		  "[node1]:29500 (errno: 111 - Connection refused).\n",
		  "master-attempt" },
		{ "[W socket.cpp:697] [c10d] The client socket has failed to connect to "
		  "[node1]:29500 (errno: 113 - No route to host).\n",
		  "master-attempt-no-route" },
		{ "[W socket.cpp:697] [c10d] The IPv4 network addresses of (node1, 29500) cannot "
		  "be retrieved (gai error: -2 - Name or service not known).\n",
		  "master-attempt-name" },
	};
	static const char fails[] = "[E socket.cpp:957] [c10d] The client socket has timed out "
				    "after 900s while trying to connect to (node1, 29500).\n";
	char text[512];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (report_status(read_text(rows[i].text)) != 1)
			fail_msg("not a warning: %s", rows[i].text);
		snprintf(text, sizeof(text), "%s%s", rows[i].text, fails);
		check_first(text, rows[i].id, CONFIDENCE_LIKELY);
		snprintf(text, sizeof(text), "%s%s", rows[i].text, RETRY);
		check_first(text, "ib-retry-exceeded", CONFIDENCE_CERTAIN);
	}
	check_first(fails, "master-unreachable", CONFIDENCE_CERTAIN);
}

/* Rank 0 leaves first, or torch tries IPv6. */
static void normal_ends(void **state)
{
	struct report *report = read_text(
		"[W1124 02:09:08.101 socket.cpp:697] [c10d] The IPv6 network addresses of (node1, "
		"29500) cannot be retrieved (gai error: -2 - Name or service not known).\n"
		"training finished\n"
		"[rank3]:[W1124 02:09:08.101 TCPStore.cpp:125] [c10d] recvValue failed on "
		"SocketImpl(fd=3): failed to recv, got 0 bytes\n"
		"[rank3]:[W1124 02:09:08.101 ProcessGroupNCCL.cpp:1662] [PG ID 0 PG GUID 0 Rank 3] "
		"Failed to check the \"should dump\" flag on TCPStore, with error: failed to recv, "
		"got 0 bytes\n");

	(void)state;
	assert_int_equal(report_status(report), 1);
	assert_int_equal(report->warning_count, 1);
	assert_string_equal(report->warnings[0]->rule->id, "store-closed");
}

/* The time limit, and a crash at exit, are consequences of an error before them. */
static void ends_follow_errors(void **state)
{
	static const char limit[] = "slurmstepd: error: *** STEP 8.0 ON n1 CANCELLED AT "
				    "2025-03-05T10:00:00 DUE TO TIME LIMIT ***\n";
	static const char crash[] = "Fatal Python error: Segmentation fault\n";
	char text[512];

	(void)state;
	snprintf(text, sizeof(text), "[rank5]: ValueError: x\n%s", limit);
	check_first(text, "exception", CONFIDENCE_LIKELY);
	assert_int_equal(read_text(text)->error_count, 1);
	snprintf(text, sizeof(text), "%s%s", RETRY, limit);
	check_first(text, "ib-retry-exceeded", CONFIDENCE_CERTAIN);
	snprintf(text, sizeof(text), "%s%s", limit, RETRY);
	check_first(text, "slurm-time-limit", CONFIDENCE_CERTAIN);
	snprintf(text, sizeof(text), "%s%s", limit, CLOSED);
	check_first(text, "slurm-time-limit", CONFIDENCE_CERTAIN);
	check_first(with_lines("[rank5]: ValueError: x\n", 900, limit), "slurm-time-limit",
		    CONFIDENCE_CERTAIN);

	snprintf(text, sizeof(text), "[rank5]: ValueError: x\n%sfree(): invalid pointer\n", crash);
	check_first(text, "exception", CONFIDENCE_LIKELY);
	assert_int_equal(read_text(text)->errors[0]->follow_count, 2);
	snprintf(text, sizeof(text), "%s[rank5]: ValueError: x\n", crash);
	check_first(text, "child-segfault", CONFIDENCE_CERTAIN);
	/* Not if the program went on. */
	check_first(with_lines("[rank5]: ValueError: x\n", 900, crash), "child-segfault",
		    CONFIDENCE_CERTAIN);
}

/* A message without a rule is only a warning; with an error in the log, it is ranked before consequences. */
static void unknown_messages(void **state)
{
	struct report *report = read_text(STRANGE);

	(void)state;
	assert_int_equal(report->error_count, 0);
	assert_int_equal(report->warning_count, 1);
	check_first(STRANGE CLOSED, "nccl-warn", CONFIDENCE_LIKELY);
	check_first(CLOSED STRANGE, "nccl-warn", CONFIDENCE_LIKELY);
	check_first(STRANGE REFUSED, "socket-refused", CONFIDENCE_CERTAIN);
	report = read_text(REFUSED STRANGE);
	assert_int_equal(report->error_count, 1);
	assert_int_equal(report->errors[0]->follow_count, 1);
	assert_int_equal(report->errors[0]->follows[0]->confidence, CONFIDENCE_CONSEQUENCE);
}

/* Lines of a general rule with different texts are different findings; numbers and names with a digit do not count. */
static void texts_are_findings(void **state)
{
	struct report *report = read_text(
		"a:1:2 [0] graph/topo.cc:99 NCCL WARN Something of 0x7f01 that nobody has met\n"
		"a:1:2 [1] graph/topo.cc:99 NCCL WARN Something of 0x8a02 that nobody has met\n"
		"a:1:2 [0] transport/x.cc:7 NCCL WARN Another thing that is fatal\n" CLOSED);
	char text[4096] = "";

	(void)state;
	assert_int_equal(report->error_count, 1);
	assert_int_equal(report->errors[0]->count, 2);
	assert_int_equal(report->errors[0]->follow_count, 2);
	assert_int_equal(report->errors[0]->follows[0]->first.line, 3);
	report = read_text("[rank1]: KeyError: 'loss'\n[rank1]: ValueError: 'loss'\n");
	assert_int_equal(report->errors[0]->follow_count, 1);
	assert_string_equal(report->errors[0]->follows[0]->title,
			    "an exception of the program: ValueError");

	/* Only so many are kept, among them the newest. */
	for (char c = 'a'; c < 'a' + REPORT_TEXTS + 3; c++)
		sprintf(text + strlen(text), "a:1:2 [0] x.cc:1 NCCL WARN Unheard %c\n", c);
	report = read_text(text);
	assert_int_equal(report->warning_count, REPORT_TEXTS);
	for (int i = 0; i < REPORT_TEXTS; i++)
		assert_int_equal(report->warnings[i]->count, 1);
	assert_int_equal(report->warnings[REPORT_TEXTS - 1]->first.line, REPORT_TEXTS + 3);
}

static void only_consequences(void **state)
{
	struct report *report = read_text(CLOSED);

	(void)state;
	assert_int_equal(report->error_count, 1);
	assert_int_equal(report->errors[0]->confidence, CONFIDENCE_CONSEQUENCE);
	check_first("slurmstepd: error: *** STEP 8.0 ON n1 CANCELLED AT 2025-03-05T10:00:00 ***\n"
		    "[rank1]: KeyError: 'loss'\n",
		    "exception", CONFIDENCE_LIKELY);
	check_first("failed (exitcode: -6) local_rank: 3 (pid: 4) of binary: x\n" CLOSED,
		    "peer-closed", CONFIDENCE_CONSEQUENCE);
}

/* The line after "Last error:", wherever a block of input ends; it may match another rule. */
static void last_error(void **state)
{
	static const char own[] = "[rank3]: Last error:\n[rank3]: something new failed : 7\n";

	(void)state;
	for (size_t block = 256; block < 300; block++) {
		char text[512];
		struct report *report;

		snprintf(text, sizeof(text), "%*s\n%s", (int)(256 - sizeof(own) / 2), "x", own);
		report = reading_report(text, strlen(text), block);
		assert_int_equal(report->error_count, 1);
		assert_string_equal(report->errors[0]->rule->id, "nccl-last-error");
		assert_int_equal(report->errors[0]->first.line, 3);
		assert_string_equal(report->errors[0]->why, "something new failed : 7");
	}
	check_first(
		"Last error:\r\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 10\r\n",
		"duplicate-gpu", CONFIDENCE_CERTAIN);
	check_first("Last error:\nNet : Connection closed by remote peer a<1>\n", "peer-closed",
		    CONFIDENCE_CONSEQUENCE);
}

/* The end of a traceback, whatever the exception is called, between lines of other ranks and in any block. */
static void ends_of_tracebacks(void **state)
{
	static const char *const ends[] = {
		"MemoryError",
		"KeyboardInterrupt",
		"_queue.Empty",
		"torch._dynamo.exc.Unsupported: call_function BuiltinVariable(print)",
		"grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with:",
		"__main__.main.<locals>.Stop: x",
	};
	char text[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		snprintf(text, sizeof(text),
			 "[rank5]: Traceback (most recent call last):\n"
			 "[rank5]:   File \"/w/train.py\", line 88, in <module>\n"
			 "[rank3]: Traceback (most recent call last):\n"
			 "[rank3]: Empty\n" CLOSED "\n[rank5]:\n"
			 "[rank5]:     main()\n"
			 "[rank5]: %s\n" CLOSED,
			 ends[i]);
		for (size_t block = 256; block < 300; block++) {
			struct report *report = reading_report(text, strlen(text), block);

			assert_int_equal(report->error_count, 1);
			assert_string_equal(report->errors[0]->rule->id, "trace");
			assert_int_equal(report->errors[0]->first.line, 9);
			assert_non_null(strstr(report->errors[0]->why, ends[i]));
		}
	}
	/* An exception of a rule is reported once. */
	snprintf(text, sizeof(text),
		 "Traceback (most recent call last):\n  main()\nKeyError: 'x'\n%s",
		 "MemoryError\n");
	check_first(text, "exception", CONFIDENCE_LIKELY);
	assert_null(reading_find(read_text(text), "trace"));
	/* These are not exceptions. */
	assert_int_equal(report_status(
				 read_text("Traceback (most recent call last):\nstep 1: x\n")),
			 0);
	assert_int_equal(report_status(read_text("Traceback (most recent call last):\n12: x\n")),
			 0);
	/* Handled. */
	assert_int_equal(report_status(
				 read_text(with_lines("Traceback (most recent call last):\nEmpty\n",
						      900, ""))),
			 1);
}

static void earlier_error_is_the_cause(void **state)
{
	static const char port[] = "NCCL WARN NET/IB : mlx5_0:1 Got async event : port error\n";
	static const char retry[] =
		"NCCL WARN NET/IB : Got completion from peer b<1> with status=12 opcode=0 len=0\n";
	char text[512];

	(void)state;
	snprintf(text, sizeof(text), "%s%s", port, retry);
	check_first(text, "ib-port-error", CONFIDENCE_LIKELY);
	snprintf(text, sizeof(text), "%s%s", retry, port);
	check_first(text, "ib-retry-exceeded", CONFIDENCE_CERTAIN);
}

static void rank_behind(void **state)
{
#define WAITS(rank, at)                                                                 \
	"[E x.cpp:458] [Rank " #rank "] Watchdog caught collective operation timeout: " \
	"WorkNCCL(SeqNum=" #at ", OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 2 ms\n"
	struct report *report =
		read_text(WAITS(0, 96120) WAITS(0, 96125) WAITS(7, 64088) WAITS(3, 96117));

	(void)state;
	assert_string_equal(report->errors[0]->rule->id, "rank-behind");
	assert_string_equal(report->errors[0]->title, "rank 7 is behind the others");
	assert_non_null(strstr(report->errors[0]->why,
			       "operation 64088, and the others are at 96117 to 96125"));
	check_first(WAITS(0, 12) WAITS(1, 12) WAITS(2, 12), "watchdog-timeout",
		    CONFIDENCE_CONSEQUENCE);
	check_first(WAITS(0, 12) WAITS(1, 17) WAITS(2, 15), "watchdog-timeout",
		    CONFIDENCE_CONSEQUENCE);
	check_first(WAITS(0, 12) WAITS(1, 11) WAITS(2, 12), "rank-behind", CONFIDENCE_LIKELY);
	/* More than 32 bits. */
	check_first(WAITS(0, 9876543212) WAITS(1, 9876543211) WAITS(2, 9876543212), "rank-behind",
		    CONFIDENCE_LIKELY);
}

/* Torch's rank in brackets is the one in its group; different groups are not compared. */
static void rank_behind_in_groups(void **state)
{
#define GROUP_WAITS(rank, id, group, in_group, at)                                        \
	"[rank" #rank "]:[E1124 02:09:08.1 ProcessGroupNCCL.cpp:629] [Rank " #in_group    \
	"] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=" #at            \
	", OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600048 milliseconds\n"           \
	"[rank" #rank "]:[E1124 02:09:08.2 ProcessGroupNCCL.cpp:1785] [PG ID " #id        \
	" PG GUID " #group " Rank " #in_group "] Exception (either an error or timeout) " \
	"detected by watchdog at work: " #at ", last enqueued NCCL work: " #at            \
	", last completed NCCL work: 1.\n"
	struct report *report;

	(void)state;
	check_first(GROUP_WAITS(8, 1, 3(tp), 0, 90001) GROUP_WAITS(10, 1, 3(tp), 2, 90001)
			    GROUP_WAITS(0, 2, 5(dp), 0, 500) GROUP_WAITS(1, 2, 6(dp), 0, 500)
				    GROUP_WAITS(4, 2, 5(dp), 1, 500),
		    "watchdog-timeout", CONFIDENCE_CONSEQUENCE);
	report = read_text(GROUP_WAITS(8, 1, 3(tp), 0, 90001) GROUP_WAITS(9, 2, 3(tp), 1, 90000)
				   GROUP_WAITS(10, 1, 3(tp), 2, 90001)
					   GROUP_WAITS(0, 1, 5(dp), 0, 500));
	assert_string_equal(report->errors[0]->title, "rank 9 is behind the others");
}

/* Another rank's number in a message. */
static void rank_that_timed_out_first(void **state)
{
	struct report *report = read_text(
		"[rank0]:[E1124 02:09:08.1 ProcessGroupNCCL.cpp:1484] [PG ID 0 PG GUID 0 Rank 0] "
		"Received a dump signal due to a collective timeout from  rank 5 and we will try\n");

	(void)state;
	assert_non_null(strstr(report->errors[0]->title, "rank 5"));
}

/* Repeated blanks match a single one. */
static void repeated_blanks(void **state)
{
	(void)state;
	check_first("slurmstepd:   error:  mpi/pmix_v4: _errhandler\n" CLOSED, "launcher-error",
		    CONFIDENCE_LIKELY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(program_error_first),
		cmocka_unit_test(handled_errors_are_ignored),
		cmocka_unit_test(survived_errors_are_warnings),
		cmocka_unit_test(handled_errors_are_warnings),
		cmocka_unit_test(attempts_are_warnings),
		cmocka_unit_test(normal_ends),
		cmocka_unit_test(ends_follow_errors),
		cmocka_unit_test(unknown_messages),
		cmocka_unit_test(texts_are_findings),
		cmocka_unit_test(only_consequences),
		cmocka_unit_test(last_error),
		cmocka_unit_test(ends_of_tracebacks),
		cmocka_unit_test(earlier_error_is_the_cause),
		cmocka_unit_test(rank_behind),
		cmocka_unit_test(rank_behind_in_groups),
		cmocka_unit_test(rank_that_timed_out_first),
		cmocka_unit_test(repeated_blanks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
