/* SPDX-License-Identifier: Apache-2.0 */
/* anynet_net_start (nccl_net/comm.h): takes over the settings and devices of the process. */
#include <unistd.h>

#include "base/fd.h"
#include "base/net.h"
#include "device/sysfs.h"
#include "wire/allow.h"
#include "wire/secret.h"

/* I/O threads help only on fast links and with many cores, because NCCL's own thread already polls. */
#define IO_THREADS_FROM_MBPS  40000
#define IO_THREADS_FROM_CORES 16
#define IO_THREADS_DEFAULT    2

/* The setting, or a number by cores and link speeds. */
static int choose_io_threads(void)
{
	if (anynet_net.cfg->io_threads >= 0)
		return anynet_net.cfg->io_threads;
	if (sysconf(_SC_NPROCESSORS_ONLN) < IO_THREADS_FROM_CORES)
		return 0;
	for (int i = 0; i < anynet_net.device_count; i++)
		if (anynet_net.devices[i].speed_mbps >= IO_THREADS_FROM_MBPS)
			return IO_THREADS_DEFAULT;
	return 0;
}

void anynet_net_start(const struct anynet_config *cfg, const struct anynet_device *devices,
		      int device_count)
{
	anynet_net.cfg = cfg;
	anynet_net.devices = devices;
	anynet_net.device_count = device_count;
	anynet_net.io_threads = choose_io_threads();
	anynet_net.gpu_count = sysfs_gpus(ANYNET_SYSFS);
	fd_grow_table();
	net_identify();
	secret_start(cfg->secret_file);
	allow_start(cfg->allow);
}
