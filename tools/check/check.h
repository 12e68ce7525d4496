/* SPDX-License-Identifier: Apache-2.0 */
/*
 * anynet check: what is known about the host, and the areas that judge it. Each area is a function
 * that adds its findings to the report; what several of them need is gathered before. One thread.
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
	struct conf conf; /* NCCL's files of settings, now part of the environment */
	struct loader loader;
	struct nccl_copies copies;
	struct anynet_config config;
	struct text_list warnings; /* what the plugin says while it reads its settings */
	struct interfaces interfaces;
	struct anynet_probe *probe; /* what the plugin's selector found */
	json_t *firewall;           /* rules; NULL = they cannot be read */
	bool anynet_loads;          /* every NCCL on this host takes anynet; set by check_plugin */
	bool all_releases;          /* speak of releases of NCCL that are not on this host, too */
	struct check_report report;
};

/* What each release of NCCL would load. First of all, as others ask whether it is anynet. */
void check_plugin(struct check *check);

/* Every variable and file of settings; what contradicts what. */
void check_settings(struct check *check);
void check_conflicts(struct check *check); /* a part of it */

/* The copies of NCCL, and who loads which. */
void check_nccl(struct check *check);

/* Where this process stands in the job, as the launcher's variables tell; -1 = they do not. */
struct layout {
	long rank, size;
	long local_rank, local_size; /* among the processes of this host */
	long node, nodes;            /* hosts */
};

void check_launcher(struct check *check);
void check_master(struct check *check, const struct layout *layout); /* a part of it */

/* Shared memory, sysfs, files that settings name. */
void check_system(struct check *check);

/* Interfaces and sockets; InfiniBand and RoCE. */
void check_network(struct check *check);
void check_firewall(struct check *check); /* a part of it */
void check_routes(struct check *check);   /* and another one */
void check_ib(struct check *check);
/* A part of it: a RoCE port, "mlx5_0:1", and its directory in sysfs. */
void check_gids(struct check *check, const char *port_path, const char *name);

/* Does this host let connections to its ports low to high in? `whose`: who listens there, a sentence. */
void check_ports_open(struct check *check, const char *area, int low, int high, const char *whose);

/* GPUs, their driver, and their ways to the verbs devices. */
void check_gpu(struct check *check);
/* Parts of it; `gpus` by PCI address. The first one tells whether there is a driver. */
bool check_driver(struct check *check, const struct text_list *gpus);
void check_direct(struct check *check, const struct text_list *gpus);

#endif
