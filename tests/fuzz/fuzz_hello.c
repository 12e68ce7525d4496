/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles and hellos from the network. The first byte says which fields are made right before the
 * check, so that what lies behind them is reached; the rest is the message.
 */
#include <ctype.h>

#include "input.h"
#include "transports/common/hello.h"
#include "transports/common/socket.h"

#define RIGHT_MAGIC   0x01
#define RIGHT_VERSION 0x02
#define RIGHT_TYPE    0x04
#define RIGHT_BYTES   0x08
#define AS_WELCOME    0x10
#define AS_HANDLE     0x20

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
	must(handle.magic == ANYNET_HANDLE_MAGIC && handle.version == ANYNET_WIRE_VERSION);
	for (int i = 0; i < ANYNET_HANDLE_ADDRS; i++)
		if (socket_from_wire(&handle.addrs[i], 1, &addr))
			text_is_safe(socket_text(&addr, text, sizeof(text)), sizeof(text));
}

static void use_plan(const struct anynet_wire_hello *hello)
{
	struct anynet_wire_addr own[ANYNET_HELLO_ADDRS];
	struct anynet_wire_rail plan[ANYNET_RAILS_MAX + 1];
	int count = hello_addr_count(hello), own_count = 1 + hello->features % ANYNET_HELLO_ADDRS;
	int rails;

	must(count >= 0 && count <= ANYNET_HELLO_ADDRS);
	memcpy(own, hello->auth, sizeof(hello->auth));
	memcpy((uint8_t *)own + sizeof(hello->auth), hello->reason,
	       sizeof(own) - sizeof(hello->auth));
	memset(plan, 0xee, sizeof(plan));
	rails = rail_plan(hello->addrs, count, own, own_count, hello->rails, plan,
			  ANYNET_RAILS_MAX);
	must(rails >= 0 && rails <= ANYNET_RAILS_MAX);
	must(rails >= 1 || !hello->rails);
	for (int i = 0; i < rails; i++) {
		must(plan[i].to < own_count);
		must(plan[i].from < count || (!count && !plan[i].from));
	}
	for (int i = rails; i <= ANYNET_RAILS_MAX; i++)
		must(plan[i].from == 0xee && plan[i].to == 0xee);
}

static void use_hello(struct input *in, uint8_t choice)
{
	enum anynet_hello_type type = choice & AS_WELCOME ? ANYNET_WELCOME : ANYNET_HELLO;
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
	must(hello.rails <= ANYNET_RAILS_MAX && hello.rail < ANYNET_RAILS_MAX);
	must(hello.status < ANYNET_STATUS_COUNT);
	if (type == ANYNET_WELCOME) {
		for (int i = 0; i < hello.rails; i++)
			must(hello.plan[i].from < ANYNET_HELLO_ADDRS &&
			     hello.plan[i].to < ANYNET_HELLO_ADDRS &&
			     hello.addrs[hello.plan[i].to].family);
		must(hello.status || hello.kind != ANYNET_KIND_COMM || hello.rails);
	}
	memset(&peer, 1, sizeof(peer));
	hello_peer(&hello, &peer);
	text_is_safe(peer.host, sizeof(peer.host));
	text_is_safe(peer.device, sizeof(peer.device));
	use_plan(&hello);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, bytes };
	uint8_t choice = input_u8(&in);

	fuzz_net_start();
	if (choice & AS_HANDLE)
		use_handle(&in, choice);
	else
		use_hello(&in, choice);
	return 0;
}
