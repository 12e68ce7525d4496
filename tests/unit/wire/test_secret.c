/* SPDX-License-Identifier: Apache-2.0 */
/* The secret: which files are accepted, the errors for others, and HMAC-SHA256 from libcrypto. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <nccl_net/log.h>

#include "support/capture.h"
#include "transports/wire/secret.h"
#include "unit/environment.h"

#define GOOD "sixteen bytes, 16"

static char dir[] = "/tmp/anynet-secret-XXXXXX";
static char path[sizeof(dir) + 16];

static int make_dir(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/secret", dir);
	return 0;
}

static int remove_dir(void **state)
{
	(void)state;
	return rmdir(dir);
}

static int setup(void **state)
{
	(void)state;
	log_to_capture();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

static void write_file(const void *data, size_t bytes, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, bytes), (ssize_t)bytes);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void is_taken(const char *file)
{
	secret_start(file);
	if (secret_problem())
		fail_msg("%s", secret_problem());
	assert_true(secret_known());
	assert_int_equal(capture_count(0, NULL), 0);
}

/* One warning with the file and the reason. */
static void is_refused(const char *file, const char *why)
{
	uint8_t mac[HMAC_BYTES];

	log_to_capture();
	secret_start(file);
	assert_false(secret_known());
	assert_non_null(secret_problem());
	assert_int_equal(capture_count(0, NULL), 1);
	assert_int_equal(capture_count(ANYNET_LOG_WARN, file), 1);
	if (!strstr(newest_line(), why))
		fail_msg("'%s' does not say '%s'", newest_line(), why);
	assert_non_null(strstr(newest_line(), secret_problem()));
	assert_int_equal(secret_mac("", 0, mac), -EIO);
}

static void mac_with(const char *contents, size_t bytes, uint8_t mac[HMAC_BYTES])
{
	write_file(contents, bytes, 0600);
	is_taken(path);
	assert_int_equal(secret_mac("hello", 5, mac), 0);
}

/* libcrypto shuts down at exit: it must not be called then. Runs before any other test has opened it, because exit
 * handlers run in reverse order of registration. */
static void still_computes(void)
{
	uint8_t mac[HMAC_BYTES];

	_exit(hmac_sha256("key", 3, "data", 4, mac) == -EIO ? 0 : 1);
}

static void test_nothing_is_computed_once_exit_has_begun(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	assert_true(pid >= 0);
	if (!pid) {
		uint8_t mac[HMAC_BYTES];
		char why[512];

		alarm(250); /* otherwise it may hang */
		atexit(still_computes);
		if (hmac_open(hmac_library_names, why, sizeof(why)) ||
		    hmac_sha256("key", 3, "data", 4, mac))
			_exit(2);
		exit(3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void hmac_is(const void *key, size_t key_bytes, const char *data, const char *hex)
{
	uint8_t mac[HMAC_BYTES];
	char text[2 * HMAC_BYTES + 1];

	assert_int_equal(hmac_sha256(key, key_bytes, data, strlen(data), mac), 0);
	for (int i = 0; i < HMAC_BYTES; i++)
		snprintf(text + 2 * (size_t)i, 3, "%02x", mac[i]);
	assert_string_equal(text, hex);
}

/* RFC 4231, test cases 1, 6 and 7. */
static void test_hmacs_are_those_of_the_standard(void **state)
{
	uint8_t key[131];
	char why[512];

	(void)state;
	assert_int_equal(hmac_open(hmac_library_names, why, sizeof(why)), 0);
	memset(key, 0x0b, 20);
	hmac_is(key, 20, "Hi There",
		"b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
	memset(key, 0xaa, sizeof(key));
	hmac_is(key, sizeof(key), "Test Using Larger Than Block-Size Key - Hash Key First",
		"60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
	hmac_is(key, sizeof(key),
		"This is a test using a larger than block-size key and a larger than block-size "
		"data. The key needs to be hashed before being used by the HMAC algorithm.",
		"9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

static void test_a_missing_library_is_named(void **state)
{
	static const char *const none[] = { "libanynet-none.so.3", "libc.so.6", NULL };
	const char *const good_last[] = { "libanynet-none.so.3", "libc.so.6",
					  hmac_library_names[0], hmac_library_names[1],
					  hmac_library_names[2], NULL };
	uint8_t mac[HMAC_BYTES];
	char why[512], little[20];

	(void)state;
	assert_int_equal(hmac_open(none, why, sizeof(why)), -ENOENT);
	assert_non_null(strstr(why, "no usable libcrypto"));
	assert_non_null(strstr(why, "libanynet-none.so.3: cannot open shared object file"));
	assert_non_null(strstr(why, "libc.so.6: it has no HMAC"));
	assert_int_equal(hmac_sha256("key", 3, "data", 4, mac), -EIO);
	assert_int_equal(hmac_open(none, little, sizeof(little)), -ENOENT);
	assert_int_equal(hmac_open(good_last, why, sizeof(why)), 0);
	assert_int_equal(hmac_sha256("key", 3, "data", 4, mac), 0);
}

static void test_a_library_that_refuses_short_keys_is_used(void **state)
{
	static const char *const strict[] = { STRICT_CRYPTO, NULL };
	uint8_t mac[HMAC_BYTES];
	char why[512];

	(void)state;
	assert_int_equal(hmac_open(strict, why, sizeof(why)), 0);
	assert_int_equal(hmac_sha256("key", 3, "data", 4, mac), -EIO);
	assert_int_equal(hmac_sha256(GOOD, SECRET_MIN_BYTES, "data", 4, mac), 0);
	assert_int_equal(hmac_open(hmac_library_names, why, sizeof(why)), 0);
}

static void test_without_a_file_there_is_no_secret(void **state)
{
	uint8_t mac[HMAC_BYTES];

	(void)state;
	write_file(GOOD, sizeof(GOOD), 0600);
	is_taken(path);
	secret_start("");
	assert_null(secret_problem());
	assert_false(secret_known());
	assert_int_equal(secret_mac("", 0, mac), -EIO);
	assert_int_equal(capture_count(0, NULL), 0);
}

static void test_the_file_is_the_key(void **state)
{
	uint8_t mac[HMAC_BYTES], wanted[HMAC_BYTES];

	(void)state;
	mac_with("0123456789abcde\0", 16, mac);
	assert_int_equal(hmac_sha256("0123456789abcde\0", 16, "hello", 5, wanted), 0);
	assert_memory_equal(mac, wanted, sizeof(mac));
	mac_with("0123456789abcdeX", 16, mac);
	assert_memory_not_equal(mac, wanted, sizeof(mac));
}

static void test_one_newline_at_the_end_does_not_count(void **state)
{
	uint8_t plain[HMAC_BYTES], one[HMAC_BYTES], two[HMAC_BYTES];

	(void)state;
	mac_with("0123456789abcdef", 16, plain);
	mac_with("0123456789abcdef\n", 17, one);
	mac_with("0123456789abcdef\n\n", 18, two);
	assert_memory_equal(plain, one, sizeof(plain));
	assert_memory_not_equal(plain, two, sizeof(plain));
}

static void test_a_secret_has_16_to_4096_bytes(void **state)
{
	char data[SECRET_MAX_BYTES + 100];

	(void)state;
	memset(data, 'x', sizeof(data));
	write_file(data, SECRET_MAX_BYTES, 0600);
	is_taken(path);
	data[SECRET_MAX_BYTES] = '\n';
	write_file(data, SECRET_MAX_BYTES + 1, 0600);
	is_taken(path);
	write_file(data, SECRET_MAX_BYTES + 2, 0600);
	is_refused(path, "holds at least 4098 bytes; a secret has 16 to 4096");
	write_file(data, sizeof(data), 0600);
	is_refused(path, "holds at least 4098 bytes");
	data[SECRET_MAX_BYTES] = 'x';
	write_file(data, SECRET_MAX_BYTES + 1, 0600);
	is_refused(path, "holds at least 4097 bytes");
	data[15] = '\n';
	write_file(data, 16, 0600);
	is_refused(path, "holds 15 bytes");
	write_file("\n", 1, 0600);
	is_refused(path, "holds 0 bytes");
	write_file("", 0, 0600);
	is_refused(path, "holds 0 bytes");
}

static void test_others_may_not_use_the_file(void **state)
{
	static const mode_t good[] = { 0600, 0400, 0700 };
	static const mode_t bad[] = { 0640, 0604, 0620, 0602, 0610, 0601, 0666, 0777 };
	char text[16];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		write_file(GOOD, sizeof(GOOD), good[i]);
		is_taken(path);
		unlink(path);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		write_file(GOOD, sizeof(GOOD), bad[i]);
		snprintf(text, sizeof(text), "mode %04o", bad[i]);
		is_refused(path, text);
	}
}

static void test_the_file_is_ours_or_roots(void **state)
{
	(void)state;
	if (geteuid())
		skip(); /* only root can change a file's owner */
	write_file(GOOD, sizeof(GOOD), 0600);
	assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
	is_refused(path, "belongs to user 12345; it must belong to user 0 or root");
}

static void test_what_is_no_file_is_refused(void **state)
{
	(void)state;
	is_refused(path, "cannot be opened: No such file or directory");
	is_refused(dir, "is not a regular file");
	is_refused("/dev/null", "is not a regular file");
	assert_int_equal(mkfifo(path, 0600), 0);
	is_refused(path, "is not a regular file");
}

static void test_a_link_to_a_file_will_do(void **state)
{
	char target[sizeof(path) + 8];

	(void)state;
	write_file(GOOD, sizeof(GOOD), 0600);
	snprintf(target, sizeof(target), "%s.there", path);
	assert_int_equal(rename(path, target), 0);
	assert_int_equal(symlink(target, path), 0);
	is_taken(path);
	unlink(target);
}

/* In a process of its own, so that it is not open in the first test. */
static bool has_no_library(void)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		char why[512];

		if (!hmac_open(hmac_library_names, why, sizeof(why)))
			_exit(0);
		dprintf(STDOUT_FILENO, "SKIP %s\n", why);
		_exit(1);
	}
	return pid < 0 || waitpid(pid, &status, 0) != pid || status;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_computed_once_exit_has_begun),
		cmocka_unit_test(test_hmacs_are_those_of_the_standard),
		cmocka_unit_test(test_a_missing_library_is_named),
		cmocka_unit_test(test_a_library_that_refuses_short_keys_is_used),
		cmocka_unit_test_setup_teardown(test_without_a_file_there_is_no_secret, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_the_file_is_the_key, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_newline_at_the_end_does_not_count, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_a_secret_has_16_to_4096_bytes, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_others_may_not_use_the_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_file_is_ours_or_roots, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_is_no_file_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_link_to_a_file_will_do, setup, teardown),
	};

	if (has_no_library())
		return 77;
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
