/* SPDX-License-Identifier: Apache-2.0 */
/* What a report of `anynet check` omits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/check/scrub.h"
#include "tools/shared/secret_name.h"
#include "unit/sysfs_tree.h"

static struct scrub scrub;

static void expect(const char *text, const char *told)
{
	char *done = scrub_text(&scrub, text);

	assert_string_equal(done, told);
}

static void begin(bool keep_names)
{
	const struct host host = { .root = tree_root(), .home = "" };

	tree_file("etc/hosts", "127.0.0.1 localhost\n10.1.2.3 gpu07.example.com gpu07 # rack 4\n");
	setenv("USER", "alice", 1);
	setenv("SLURM_NODELIST", "dgx[01-04,11],4u-rack[7-8]-ib,login1", 1);
	setenv("MASTER_ADDR", "fd12:3456::7", 1);
	setenv("NCCL_COMM_ID", "[fd12:3456::8]:29500", 1);
	setenv("SOME_API_TOKEN", "hunter22", 1);
	setenv("NCCL_OWN_THING", "swordfish", 1);
	setenv("NCCL_PSK", "0a1b2c3d4e5f", 1);
	setenv("SHORT_KEY", "1", 1);
	setenv("LONG_PASSWORD", "hunter22-and-a-half\n\001", 1);
	scrub_open(&scrub, &host, keep_names);
}

static void test_hosts_and_users_have_numbers(void **state)
{
	(void)state;
	begin(false);
	expect("gpu07 and GPU07 are one; xgpu07 and gpu07x are not",
	       "host-1 and host-1 are one; xgpu07 and gpu07x are not");
	expect("gpu07.example.com, gpu07.", "host-1, host-1.");
	expect("login1.hpc.example.com:22, login1.", "host-2:22, host-2.");
	expect("login1:29500", "host-2:29500");
	expect("/home/alice/.nccl.conf and /home/alicex",
	       "/home/user-1/.nccl.conf and /home/alicex");
	expect("dgx01 DGX04 dgx11 and dgx[01-04,11]; not dgx05, dgx1",
	       "host-3 host-4 host-5 and host-6[01-04,11]; not dgx05, dgx1");
	expect("4u-rack8-ib.example.com, 4u-rack9 -ib", "host-7, 4u-rack9 -ib");
	expect("localhost eth0 mlx5_0 libibverbs", "localhost eth0 mlx5_0 libibverbs");
}

static void test_addresses_have_numbers(void **state)
{
	(void)state;
	begin(false);
	expect("10.1.2.3, then 10.1.2.4:80, 10.1.2.3.", "ipv4-1, then ipv4-2:80, ipv4-1.");
	expect("127.0.0.1 0.0.0.0 ::1 ::", "127.0.0.1 0.0.0.0 ::1 ::");
	expect("fe80::1%eth0, 2001:db8::5/64 and 169.254.1.1",
	       "link-local-3%eth0, ipv6-4/64 and link-local-5");
	expect("fd12:3456::7, [fd12:3456::8]:29500, fd12:3456::7",
	       "ipv6-6, [ipv6-7]:29500, ipv6-6");
	expect("b8:ce:f6:01:02:03 b8ce:f603:0001:0203", "serial-8 serial-9");
	expect("guid 0x506b4b0300ca1234", "guid serial-10");
	expect("0000:3b:00.0 at 12:34:56, driver 535.104.05, kernel 6.8.0-45",
	       "0000:3b:00.0 at 12:34:56, driver 535.104.05, kernel 6.8.0-45");
	expect("NCCL 2.12 – 2.30", "NCCL 2.12 – 2.30");
}

static void test_secrets_go_in_any_case(void **state)
{
	(void)state;
	begin(true);
	expect("gpu07 10.1.2.3 alice: xhunter22x, NCCL_OWN_THING=swordfish, 1, NCCL_PSK=0a1b2c3d4e5f",
	       "gpu07 10.1.2.3 alice: x[secret]x, NCCL_OWN_THING=[secret], 1, NCCL_PSK=[secret]");
	expect("hunter22-and-a-half\\x0a\\x01, hunter22-and ..., hunter2",
	       "[secret], [secret] ..., hunter2");
	assert_true(scrub_is_known("NCCL_IB_HCA"));
	assert_true(scrub_is_known("ANYNET_TCP_CONNECTIONS"));
	assert_false(scrub_is_known("ANYNET_SECRET_FILE"));
	/* The key of NCCL's own connections is a secret; that of an InfiniBand partition is none. */
	assert_false(scrub_is_known("NCCL_PSK"));
	assert_true(scrub_is_known("NCCL_IB_PKEY"));
	assert_true(scrub_is_known("NCCL_IB_PKEY_VALUE"));
	assert_true(is_secret_name("GLIB_PKEY_FILE"));
	assert_false(scrub_is_known("NCCL_OWN_THING"));
}

static void test_json_keeps_its_shape(void **state)
{
	json_t *all = json_pack("{s:[s, i, b], s:{s:s, s:s}}", "list", "on gpu07", 7, 1, "inner",
				"firmware", "5.8.2.0", "text", "10.9.9.9");
	json_t *want = json_pack("{s:[s, i, b], s:{s:s, s:s}}", "list", "on host-1", 7, 1, "inner",
				 "firmware", "5.8.2.0", "text", "ipv4-1");
	json_t *told;

	(void)state;
	begin(false);
	told = scrub_json(&scrub, all);
	assert_true(json_equal(told, want));
	json_decref(told);
	json_decref(want);
	json_decref(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_tree(test_hosts_and_users_have_numbers),
		with_tree(test_addresses_have_numbers),
		with_tree(test_secrets_go_in_any_case),
		with_tree(test_json_keeps_its_shape),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
