/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in rules: every sample, as a log of one line, matches its rule and no other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "reading.h"

static const struct rule *find_rule(const char *id)
{
	struct rules *rules = reading_rules();

	for (size_t i = 0; i < rules->count; i++)
		if (!strcmp(rules->rules[i]->id, id))
			return rules->rules[i];
	return NULL;
}

/* Such a rule needs further lines for a finding. */
static bool is_additional(const struct rule *rule)
{
	return rule_is_additional(rule) || rule_awaits(rule);
}

static void check_sample(const struct rule *rule, const char *sample)
{
	struct report *report = reading_report(sample, strlen(sample), SCAN_BLOCK);
	const struct finding *found = NULL;

	for (size_t i = 0; i < report->finding_count; i++) {
		const struct finding *f = report->findings[i];

		if (!f->count || is_additional(f->rule))
			continue;
		if (f->rule != rule)
			fail_msg("the sample of %s leads to %s: %s", rule->id, f->rule->id, sample);
		found = f;
	}
	if (!found)
		fail_msg("the sample of %s leads nowhere: %s", rule->id, sample);
	assert_int_equal(found->count, 1);
	assert_int_equal(found->first.line, 1);
	assert_string_equal(found->message, sample);
	/* A consequence without a cause is an error. */
	if (rule->kind == RULE_ERROR || rule->kind == RULE_FOLLOWS || rule->kind == RULE_PROGRAM ||
	    rule->kind == RULE_END) {
		assert_int_equal(report_status(report), 2);
		assert_ptr_equal(report->errors[0], found);
	} else {
		bool warns = rule->kind == RULE_WARNING || rule->kind == RULE_UNKNOWN;

		assert_int_equal(report_status(report), warns);
		assert_ptr_equal(warns ? report->warnings[0] : report->harmless[0], found);
	}
}

static void samples(void **state)
{
	struct rules *rules = reading_rules();

	(void)state;
	assert_true(rules->count > 100);
	for (size_t i = 0; i < rules->count; i++) {
		const struct rule *rule = rules->rules[i];

		assert_true(rule->sample_count > 0);
		for (int j = 0; j < rule->sample_count && !is_additional(rule); j++)
			check_sample(rule, rule->samples[j]);
	}
}

/* The filter drops no match: with it every sample matches the same rule as without it, anywhere in a line. */
static void filter_finds_all(void **state)
{
	struct rules *rules = reading_rules();
	char line[4096];

	(void)state;
	for (size_t i = 0; i < rules->count; i++) {
		for (int j = 0; j < rules->rules[i]->sample_count; j++) {
			int at = snprintf(line, sizeof(line), "%*s%s%*s", (int)(i % 11), "",
					  rules->rules[i]->samples[j], j, "");
			struct report *report = reading_report(line, (size_t)at, SCAN_BLOCK);
			struct match match;
			const struct rule *rule = rules_find(rules, line, (size_t)at, &match);

			if (rule && !rule_awaits(rule))
				assert_non_null(reading_find(report, rule->id));
			else
				assert_int_equal(report_status(report), 0);
		}
	}
}

/* Normal output of NCCL_DEBUG=INFO and of programs causes no finding. */
static void clean_logs(void **state)
{
	static const char *const lines[] = {
		"node1:4120:4160 [0] NCCL INFO Channel 00/02 :    0   1   2   3",
		"node1:4120:4160 [0] NCCL INFO Channel 01/0 : 3[3] -> 4[4] [send] via NET/Socket/0/Shared",
		"node1:4120:4160 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>",
		"node1:4120:4160 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0> [1]eth1:10.0.1.1<0>",
		"node1:4120:4160 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>",
		"node1:4120:4160 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0",
		"node1:4120:4160 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 1",
		"node1:4120:4160 [0] NCCL INFO GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
		"node1:4120:4160 [0] NCCL INFO comm 0x55d0 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0",
		"node1:4120:4160 [0] NCCL INFO anynet: dev 0 eth0 transport TCP addr 10.0.0.1 speed 10000 Mb/s pci none",
		"node1:4120:4160 [0] NCCL INFO anynet: TCP eth1 not used: is down",
		"node1:4120:4160 [0] NCCL INFO anynet: send to peer node2 pid 1 addr 10.0.0.2:1 dev eth0: 1 path on dev eth0, first 10.0.0.1:2 -> 10.0.0.2:1",
		"Epoch 3:  71%|#######1  | 340/478 [01:02<00:25,  5.41it/s, loss=0.31]",
		"[rank0]:[I305 10:00:00.0 ProcessGroupNCCL.cpp:800] [PG ID 0 Rank 0] ProcessGroupNCCL initialization options",
		"INFO:root:saved the checkpoint, no error, 0 warnings",
		"# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5",
	};
	char text[8192] = "";

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		struct report *report = reading_report(lines[i], strlen(lines[i]), SCAN_BLOCK);

		if (report_status(report))
			fail_msg("a finding in: %s", lines[i]);
		strcat(strcat(text, lines[i]), "\n");
	}
	struct report *report = reading_report(text, strlen(text), SCAN_BLOCK);
	assert_int_equal(report_status(report), 0);
	assert_int_equal(report->lines, sizeof(lines) / sizeof(*lines));
}

/* Logs from public reports, as quoted there, and the expected first cause. */
static void reported_logs(void **state)
{
	static const struct {
		const char *log, *cause;
	} rows[] = {
		/* CuPy with NCCL_NET=IB on a host without InfiniBand, and with NCCL_NET="" */
		{ "NCCL INFO Failed to open libibverbs.so[.1]\nNCCL WARN Error: network IB not found.\n"
		  "NcclError: NCCL_ERROR_INVALID_USAGE: invalid usage\n",
		  "net-not-found" },
		{ "NCCL WARN Error: network  not found.\n", "net-not-found" },
		/* PyTorch on hosts with different versions of NCCL */
		{ "ncclInternalError: Internal check failed.\nLast error:\nncclSocketInit: connecting to "
		  "address  with family 0 is neither AF_INET(2) nor AF_INET6(10)\n",
		  "nccl-family-0" },
		{ "a:1:1 [1] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0\n"
		  "NCCL version 2.14.3+cuda11.7\n"
		  "a:1:2 [1] misc/socket.cc:480 NCCL WARN ncclSocketInit: connecting to address  with "
		  "family 0 is neither AF_INET(2) nor AF_INET6(10)\n",
		  "nccl-family-0" },
		/* Lightning on 2 hosts of 4 GPUs */
		{ "libnccl-net.so: cannot open shared object file: No such file or directory\n"
		  "ip-10-0-0-2:99:99 [3] init.cc:1632 NCCL WARN Invalid rank requested : 7/4\n"
		  "ncclInvalidArgument: Invalid value for an argument.\n",
		  "invalid-rank" },
		{ "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. "
		  "1/2 clients joined.\n",
		  "waiting-for-clients" },
		{ "RuntimeError: NCCL error: Some NCCL operations have failed or timed out.\n",
		  "operations-failed" },
		{ "RuntimeError: NCCL error: Unhandled Cuda Error\n", "nccl-cuda-error" },
		{ "a:1:1 [0] NCCL INFO Using network IB\nb:2:2 [0] NCCL INFO Using network Socket\n"
		  "[Rank 0] Watchdog caught collective operation timeout: x\n",
		  "net-differs" },
		{ "a:1:1 [0] NCCL INFO NET/Plugin: Loaded net plugin IB (v10)\n"
		  "b:2:2 [0] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so)\n"
		  "[Rank 0] Watchdog caught collective operation timeout: x\n",
		  "plugin-differs" },
		/* The cause is read after its consequence */
		{ "[Rank 0] Watchdog caught collective operation timeout: x\n"
		  "a:1:1 [0] NCCL WARN Connection closed by remote peer b<1>\n"
		  "[rank3]: torch.OutOfMemoryError: CUDA out of memory.\n"
		  "srun: error: node2: task 3: Exited with exit code 1\n",
		  "cuda-out-of-memory" },
		/* A flushed request is a consequence */
		{ "NCCL WARN NET/IB : Got completion from peer b<1> with status=5 opcode=0 len=0\n"
		  "NCCL WARN NET/IB : Got completion from peer b<1> with status=12 opcode=0 len=0\n",
		  "ib-retry-exceeded" },
		/* So is the end of NCCL's fail-over */
		{ "NCCL WARN NET/IB: The error is fatal (No functional devices left). Cannot continue.\n"
		  "NCCL WARN NET/IB : Got completion from peer b<1> with status=12 opcode=0 len=0\n",
		  "ib-retry-exceeded" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct report *report =
			reading_report(rows[i].log, strlen(rows[i].log), SCAN_BLOCK);

		assert_true(report->error_count > 0);
		if (strcmp(report->errors[0]->rule->id, rows[i].cause) != 0)
			fail_msg("%s instead of %s is the cause of: %s",
				 report->errors[0]->rule->id, rows[i].cause, rows[i].log);
		assert_int_equal(report->error_count, 1);
	}
}

/* Whether the text contains the number, not as part of a longer one. */
static bool names(const char *text, const char *number)
{
	size_t bytes = strlen(number);

	for (const char *at = text; at && (at = strstr(at, number)); at++) {
		if ((at == text || !isdigit((unsigned char)at[-1])) &&
		    !isdigit((unsigned char)at[bytes]))
			return true;
	}
	return false;
}

/* Public issues and threads: each has a rule that names it. Those without a message in a log (NVIDIA/nccl PRs 2318,
 * 2394, 2395) are not listed. */
static void reported_issues(void **state)
{
	static const struct {
		const char *rule, *numbers;
	} rows[] = {
		{ "net-differs", "234 188" },
		{ "wrong-type", "234 188" },
		{ "ib-device-sets", "2428" },
		{ "ib-cannot-open", "2428" },
		{ "plugin-differs", "1634" },
		{ "no-ib-device", "952" },
		{ "no-libibverbs", "229 685 1168" },
		{ "external-net", "676" },
		{ "loopback-only", "286 697" },
		{ "virtual-interface", "224 286 697 4756" },
		{ "link-local", "529 928" },
		{ "ip-family", "210 14" },
		{ "ib-retry-exceeded", "426 81628 1170 1664 905 718 551 1131 803" },
		{ "ib-flushed", "1698 1405 902" },
		{ "ib-port-error", "905 380" },
		{ "ib-gid-changed", "1333 394 1819" },
		{ "ib-modify-qp-gid", "718 890 769 925 799 185" },
		{ "ib-modify-qp-timeout", "2013 1591" },
		{ "gdr-disabled", "1537 1939 897 475 245" },
		{ "ib-protection", "214 928 1052 1737" },
		{ "ib-memlock", "206 1191 78" },
		{ "socket-timed-out", "388 171179" },
		{ "stray-connection", "1808 1612 914 1064 1880 2174 2177" },
		{ "socket-streams", "450 209 398 83 438 374 1759" },
		{ "several-interfaces", "601 1269 1447 278" },
		{ "ib-failover", "998 2192 2044 2157 2310 2323" },
		{ "service-thread", "1071 193" },
		{ "socket-aborted", "1515 162 166" },
		{ "socket-no-route", "1311" },
		{ "peer-closed", "1099 119418 149984 1486 1619" },
		{ "nccl-system-error", "207 1099" },
		{ "nccl-version", "354 238" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct rule *rule = find_rule(rows[i].rule);
		char numbers[128], *rest = numbers;

		if (!rule || !rule->see)
			fail_msg("no rule %s, or it names no thread", rows[i].rule);
		snprintf(numbers, sizeof(numbers), "%s", rows[i].numbers);
		for (char *number; (number = strsep(&rest, " "));)
			if (!names(rule->see, number))
				fail_msg("%s does not name thread %s", rule->id, number);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples),         cmocka_unit_test(filter_finds_all),
		cmocka_unit_test(clean_logs),      cmocka_unit_test(reported_logs),
		cmocka_unit_test(reported_issues),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
