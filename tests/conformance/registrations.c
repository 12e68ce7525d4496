/* SPDX-License-Identifier: Apache-2.0 */
/* How often memory is registered with adapters: GPU memory once, for however many connections NCCL registers it, each
 * by its own dma-buf (net-api.md §3.7). On the fakes of libcuda and libibverbs. */
#include <support/buffer.h>
#include <support/capture.h>
#include <support/fake.h>
#include <support/flow.h>
#include <support/link.h>
#include <support/memory.h>

#include <nccl_net/device.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BYTES ((size_t)300000)
#define COMMS 6

static uint64_t mrs(void)
{
	return fake_counts().mrs;
}

/* One registration, whichever comm made it; it ends with the last one. */
static void a_buffer_is_registered_once_for_all_comms(struct test_net *net)
{
	struct link links[COMMS];
	void *mhandles[2 * COMMS];
	uint64_t before, registrations, dmabufs;
	struct buffer buffer;

	for (int i = 0; i < COMMS; i++)
		link_open(net, &links[i]);
	buffer_alloc(&buffer, BYTES);
	/* The first registration for receives creates the NIC's queue pair for flushes. */
	mhandles[0] = flow_reg(net, links[0].recv, buffer.data, BYTES);
	check_ok(driver_dereg_mr(net->driver, links[0].recv, mhandles[0]));
	before = mrs();
	registrations = fake_counts().registrations;
	dmabufs = memory_counts().dmabufs;
	for (int i = 0; i < 2 * COMMS; i++)
		mhandles[i] = flow_reg(net, i % 2 ? links[i / 2].send : links[i / 2].recv,
				       buffer.data, BYTES);
	check_int(mrs(), before + 1);
	check_int(fake_counts().registrations, registrations + 1);
	if (net->props.ptr_support & ANYNET_PTR_DMABUF)
		check_int(memory_counts().dmabufs - dmabufs, 2 * COMMS);
	for (int i = 0; i < 2 * COMMS; i++) {
		check_int(mrs(), before + 1);
		check_ok(driver_dereg_mr(net->driver, i % 2 ? links[i / 2].send : links[i / 2].recv,
					 mhandles[i]));
	}
	check_int(mrs(), before);
	buffer_free(&buffer);
	for (int i = 0; i < COMMS; i++)
		link_close(net, &links[i]);
}

/* A dma-buf that the plugin exports for a port that takes over is mapped as NCCL requests it for a NIC. */
static void its_own_dmabufs_are_mapped_by_pcie(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a dma-buf for the other port");
	struct buffer from, to;
	struct link link;
	void *mhandles[2];
	uint64_t before;

	if (!(net->props.ptr_support & ANYNET_PTR_DMABUF))
		check_skip("the device takes no dma-bufs");
	link_open(net, &link);
	buffer_alloc(&from, BYTES);
	buffer_alloc(&to, BYTES);
	mhandles[0] = flow_reg(net, link.send, from.data, BYTES);
	mhandles[1] = flow_reg(net, link.recv, to.data, BYTES);
	before = memory_counts()
			 .dmabufs_by_pcie; /* of the proof that the first port can access the GPU */
	fake_order("set fake0:1 state=down");
	while (memory_counts().dmabufs_by_pcie < before + 2) {
		struct transfer send = transfer_of(from.data, BYTES, 0, mhandles[0]);
		struct transfer recv = transfer_of(to.data, BYTES, 0, mhandles[1]);
		struct flow flows[] = {
			{ .comm = link.send, .is_send = true, .transfers = &send, .count = 1 },
			{ .comm = link.recv, .transfers = &recv, .count = 1 },
		};

		flows_run(net, flows, 2);
		deadline_turn(&deadline);
	}
	check_ok(driver_dereg_mr(net->driver, link.send, mhandles[0]));
	check_ok(driver_dereg_mr(net->driver, link.recv, mhandles[1]));
	buffer_free(&from);
	buffer_free(&to);
	link_close(net, &link);
}

/* A send without a registration gets one that ends with it. By then its memory may be other memory: freed before close,
 * and allocated again. */
static void a_registration_made_for_a_send_is_not_reused(struct test_net *net)
{
	const int kind = MAP_PRIVATE | MAP_ANONYMOUS;
	void *data = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, kind, -1, 0);
	struct link busy, other;
	uint64_t registrations;
	void *req, *mhandle;

	check(data != MAP_FAILED);
	link_open(net, &busy);
	link_open(net, &other);
	registrations = fake_counts().registrations;
	check_ok(driver_isend(net->driver, busy.send,
			      &(struct driver_send){ data, BYTES, 0, NULL, NULL }, &req));
	check(req);
	check_int(fake_counts().registrations, registrations + 1);
	check(mmap(data, BYTES, PROT_READ | PROT_WRITE, kind | MAP_FIXED, -1, 0) == data);
	check_ok(driver_reg_mr(net->driver, other.send, data, BYTES, ANYNET_PTR_HOST, &mhandle));
	check_int(fake_counts().registrations, registrations + 2);
	check_ok(driver_dereg_mr(net->driver, other.send, mhandle));
	link_close(net, &busy);
	link_close(net, &other);
	munmap(data, BYTES);
}

/* In the form of TEST_DEVICES. A Data Direct engine is a device with its own PCI address, which NCCL has to flush. */
static void data_direct_engines_are_devices(struct test_net *net)
{
	static const char *const engines[] = { "/sys/devices/pci0000:00/0000:00:07.1",
					       "/sys/devices/pci0000:00/0000:00:08.1" };
	char expected[200], *rest = expected;
	struct driver_props props;
	uint64_t direct = fake_counts().direct, made;
	int count = 0;

	if (!getenv("TEST_DEVICES"))
		check_skip("TEST_DEVICES is not set");
	snprintf(expected, sizeof(expected), "%s", getenv("TEST_DEVICES"));
	check_ok(driver_devices(net->driver, &count));
	for (int dev = 0; dev < count; dev++) {
		const char *name = strsep(&rest, ",");
		bool is_direct = name && strstr(name, "_dma");
		struct link link;
		struct buffer buffer;
		void *mhandle;

		check_ok(driver_properties(net->driver, dev, &props));
		check_that(name && !strcmp(props.name, name), "device %d is %s", dev, props.name);
		check_int(props.force_flush, is_direct);
		check(props.ptr_support & ANYNET_PTR_DMABUF);
		if (is_direct)
			check_that(props.pci_path &&
					   !strcmp(props.pci_path, engines[name[4] - '0']),
				   "%s is at %s", name, props.pci_path);
		net->dev = net->listen_dev = dev;
		link_open(net, &link);
		buffer_alloc(&buffer, BYTES);
		mhandle = flow_reg(net, link.send, buffer.data, BYTES);
		made = fake_counts().direct - direct;
		check_int(made > 0, is_direct);
		direct += made;
		check_ok(driver_dereg_mr(net->driver, link.send, mhandle));
		buffer_free(&buffer);
		link_close(net, &link);
	}
	check(!rest);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "a_buffer_is_registered_once_for_all_comms",
		  a_buffer_is_registered_once_for_all_comms },
		{ .name = "its_own_dmabufs_are_mapped_by_pcie",
		  its_own_dmabufs_are_mapped_by_pcie,
		  .settings = { "FAKE_CUDA=device; version 12080" } },
		{ .name = "a_registration_made_for_a_send_is_not_reused",
		  a_registration_made_for_a_send_is_not_reused },
		{ .name = "data_direct_engines_are_devices", data_direct_engines_are_devices },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
