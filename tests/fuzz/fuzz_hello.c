/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles and hellos from the network. The first byte says which fields are corrected before the check, so that the
 * code behind them is reached; the rest is the message.
 */
#include <ctype.h>
#include <errno.h>

#include "input.h"
#include "transports/base/socket.h"
#include "transports/wire/auth.h"
#include "transports/wire/hello.h"

#define RIGHT_MAGIC   0x01
#define RIGHT_VERSION 0x02
#define RIGHT_TYPE    0x04
#define RIGHT_BYTES   0x08
#define AS_WELCOME    0x10
#define AS_HANDLE     0x20
#define AS_PROOF      0x40 /* a challenge if AS_WELCOME, else a response */
#define HAS_SECRET    0x80 /* this process has one */

static void text_is_safe(const char *text, size_t bytes)
{
	const char *end = memchr(text, 0, bytes);

	must(end);
	for (; text < end; text++)
		must(isprint((unsigned char)*text));
}

static void use_handle(struct input *in, uint8_t choice)
{
	struct anynet_wire_handle handle;
	struct sockaddr_storage addr;
	char why[160], text[SOCKET_TEXT_BYTES];

	input_take(in, &handle, sizeof(handle));
	if (choice & RIGHT_MAGIC)
		handle.magic = ANYNET_HANDLE_MAGIC;
	if (choice & RIGHT_VERSION)
		handle.version = ANYNET_WIRE_VERSION;
	memset(why, 1, sizeof(why));
	if (handle_check(&handle, why, sizeof(why))) {
		text_is_safe(why, sizeof(why));
		return;
	}
	must(handle.magic == ANYNET_HANDLE_MAGIC && handle_version(&handle) == ANYNET_WIRE_VERSION);
	for (int i = 0; i < ANYNET_HANDLE_ADDRS; i++)
		if (socket_from_wire(&handle.addrs[i], 1, &addr))
			text_is_safe(socket_text(&addr, text), sizeof(text));
}

static void use_plan(const struct anynet_wire_hello *hello)
{
	struct anynet_wire_addr own[ANYNET_HELLO_ADDRS];
	struct anynet_wire_pair plan[ANYNET_STREAMS_MAX + 1];
	int count = hello_addr_count(hello), own_count = 1 + hello->features % ANYNET_HELLO_ADDRS;
	int streams;

	must(count >= 0 && count <= ANYNET_HELLO_ADDRS);
	memcpy(own, hello->nonce, sizeof(hello->nonce));
	memcpy((uint8_t *)own + sizeof(hello->nonce), hello->reason,
	       sizeof(own) - sizeof(hello->nonce));
	memset(plan, 0xee, sizeof(plan));
	streams = stream_plan((struct nic_addrs){ hello->addrs, count },
			      (struct nic_addrs){ own, own_count }, hello->streams, plan,
			      ANYNET_STREAMS_MAX);
	must(streams >= 0 && streams <= ANYNET_STREAMS_MAX);
	must(streams >= 1 || !hello->streams);
	for (int i = 0; i < streams; i++) {
		must(plan[i].to < own_count);
		must(plan[i].from < count || (!count && !plan[i].from));
	}
	for (int i = streams; i <= ANYNET_STREAMS_MAX; i++)
		must(plan[i].from == 0xee && plan[i].to == 0xee);
}

/* No input guesses a proof. */
static void use_proof(const struct anynet_wire_hello *hello, bool secret)
{
	char why[sizeof(hello->reason)] = "";
	struct anynet_wire_hello next;
	struct auth auth = { { 1 } };
	enum auth_verdict verdict;

	must(auth_check(&auth, hello) == (secret ? -EACCES : -EIO));
	verdict = auth_judge(&auth, hello, why, sizeof(why));
	text_is_safe(why, sizeof(why));
	must(verdict == AUTH_REFUSE || !secret);
	must((verdict == AUTH_REFUSE) == (*why != 0));
	must(!auth_challenge(&auth, hello, &next) == secret);
	must(!secret || !hello_check(&next, ANYNET_CHALLENGE));
	must(!auth_response(&auth, hello, &next) == secret);
	must(!secret || !hello_check(&next, ANYNET_RESPONSE));
}

static enum anynet_hello_type type_of(uint8_t choice)
{
	if (choice & AS_PROOF)
		return choice & AS_WELCOME ? ANYNET_CHALLENGE : ANYNET_RESPONSE;
	return choice & AS_WELCOME ? ANYNET_WELCOME : ANYNET_HELLO;
}

static void use_hello(struct input *in, uint8_t choice)
{
	bool secret = choice & HAS_SECRET && fuzz_net_secret(true);
	enum anynet_hello_type type = type_of(choice);
	struct anynet_wire_hello hello;
	struct anynet_peer peer;
	size_t got = input_take(in, &hello, sizeof(hello));

	if (choice & RIGHT_MAGIC)
		hello.magic = ANYNET_HELLO_MAGIC;
	if (choice & RIGHT_VERSION)
		hello.version = ANYNET_WIRE_VERSION;
	if (choice & RIGHT_TYPE)
		hello.type = (uint8_t)type;
	if (choice & RIGHT_BYTES)
		hello.bytes = sizeof(hello);
	must(!hello_is_foreign(&hello, got) || hello.version != ANYNET_WIRE_VERSION);
	if (hello_check(&hello, type))
		return;
	text_is_safe(hello.host, sizeof(hello.host));
	text_is_safe(hello.device, sizeof(hello.device));
	text_is_safe(hello.reason, sizeof(hello.reason));
	must(hello.streams <= ANYNET_STREAMS_MAX && hello.stream < ANYNET_STREAMS_MAX);
	must(hello.status < ANYNET_STATUS_COUNT);
	if (type == ANYNET_WELCOME) {
		for (int i = 0; i < hello.streams; i++)
			must(hello.plan[i].from < ANYNET_HELLO_ADDRS &&
			     hello.plan[i].to < ANYNET_HELLO_ADDRS &&
			     hello.addrs[hello.plan[i].to].family);
		must(hello.status || hello.kind != ANYNET_KIND_COMM || hello.streams);
	}
	memset(&peer, 1, sizeof(peer));
	hello_peer(&hello, &peer);
	text_is_safe(peer.host, sizeof(peer.host));
	text_is_safe(peer.device, sizeof(peer.device));
	use_plan(&hello);
	use_proof(&hello, secret);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, bytes };
	uint8_t choice = input_u8(&in);

	fuzz_net_start();
	fuzz_net_secret(false);
	if (choice & AS_HANDLE)
		use_handle(&in, choice);
	else
		use_hello(&in, choice);
	return 0;
}
