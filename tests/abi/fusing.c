/* SPDX-License-Identifier: Apache-2.0 */
#include "fusing.h"

#include "support/check.h"

void *begin_with(const char *ports, anynet_nccl_logger logger)
{
	void *ctx = NULL;

	fake.ports = ports;
	fake_log_clear();
	check_ok(ncclNetPlugin_v12.init(&ctx, 1, NULL, logger, NULL));
	return ctx;
}

void *begin(const char *ports)
{
	return begin_with(ports, fake_logger);
}

int device_count(void)
{
	int count = -1;

	check_ok(ncclNetPlugin_v12.devices(&count));
	return count;
}

struct anynet_net_props_v12 props_of(int dev)
{
	struct anynet_net_props_v12 props;

	check_ok(ncclNetPlugin_v12.get_properties(dev, &props));
	return props;
}

int make_by(int abi, int *dev, int count, const int *devs)
{
	struct anynet_net_vprops_v12 wide = { .count = count };
	struct anynet_net_vprops_v9 narrow = { .count = count };

	for (int i = 0; i < count && i < 8; i++)
		wide.devs[i] = devs[i];
	for (int i = 0; i < count && i < 4; i++)
		narrow.devs[i] = devs[i];
	*dev = 4711;
	switch (abi) {
	case 9:
		return ncclNetPlugin_v9.make_vdevice(dev, &narrow);
	case 10:
		return ncclNetPlugin_v10.make_vdevice(dev, &narrow);
	case 11:
		return ncclNetPlugin_v11.make_vdevice(dev, &narrow);
	default:
		return ncclNetPlugin_v12.make_vdevice(dev, &wide);
	}
}

int make(int count, const int *devs)
{
	int dev;

	check_ok(make_by(12, &dev, count, devs));
	return dev;
}
