/* SPDX-License-Identifier: Apache-2.0 */
/*
 * anynet check: the data gathered about the host, and the areas that examine it. Each area is a function
 * that adds its findings to the report. Data that several areas need is gathered first. Single-threaded.
 */
#ifndef CHECK_CHECK_H
#define CHECK_CHECK_H

#include <nccl_net/config.h>
#include <nccl_net/device.h>

#include "conf_file.h"
#include "copies.h"
#include "findings.h"
#include "firewall.h"
#include "host.h"
#include "interfaces.h"
#include "loader.h"

struct check {
	struct host host;
	struct conf conf; /* NCCL's configuration files; their values are now in the environment */
	struct loader loader;
	struct nccl_copies copies;
	struct anynet_config config;
	struct text_list warnings; /* the plugin's warnings about its settings */
	struct interfaces interfaces;
	struct anynet_probe *probe; /* result of the plugin's device search */
	json_t *firewall;           /* rules; NULL = unreadable */
	bool anynet_loads;          /* every NCCL on this host loads anynet; set by check_plugin */
	bool all_releases;          /* also report releases of NCCL that are not on this host */
	struct check_report report;
};

/* Reports which plugin each release of NCCL would load. Runs first, because it sets anynet_loads. */
void check_plugin(struct check *check);

/* Checks every variable and configuration file, and conflicts between them. */
void check_settings(struct check *check);
void check_conflicts(struct check *check); /* called by check_settings */

/* Checks the copies of NCCL, and which program loads which. */
void check_nccl(struct check *check);

/* Position of this process in the job, from the launcher's variables; -1 = unknown. */
struct layout {
	long rank, size;
	long local_rank, local_size; /* among the processes of this host */
	long node, nodes;            /* index and number of hosts */
};

void check_launcher(struct check *check);
void check_master(struct check *check, const struct layout *layout); /* called by check_launcher */

/* Checks shared memory, sysfs, and files named in settings. */
void check_system(struct check *check);

/* Check interfaces and sockets, and InfiniBand and RoCE. */
void check_network(struct check *check);
void check_firewall(struct check *check); /* called by check_network */
void check_routes(struct check *check);   /* called by check_network */
void check_ib(struct check *check);
/* Called by check_ib for a RoCE port: its directory in sysfs, and its name, "mlx5_0:1". */
void check_gids(struct check *check, const char *port_path, const char *name);

/* Returns the MTU of an interface; 0 = unknown. */
long interface_mtu(const struct check *check, const char *name);

/* Checks whether this host's firewall accepts connections to ports low to high. `whose` is a
 * sentence about who listens there. */
void check_ports_open(struct check *check, int low, int high, const char *whose);

/* Checks GPUs, their driver, and their PCI paths to the verbs devices. */
void check_gpu(struct check *check);
/* Called by check_gpu; `gpus` are PCI addresses. check_driver returns whether a driver is loaded. */
bool check_driver(struct check *check, const struct text_list *gpus);
void check_direct(struct check *check, const struct text_list *gpus);

#endif
