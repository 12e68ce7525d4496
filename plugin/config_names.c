/* SPDX-License-Identifier: Apache-2.0 */
/* The typo guard of the settings; see config_names.h. */
#include "config_names.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <nccl_net/config.h>
#include <nccl_net/log.h>

#define NAME_MAX_BYTES 63 /* longer names are nobody's typo */
#define FAR            (NAME_MAX_BYTES + 1)

/* NCCL's variables that concern networks (net-api.md §5), without "NCCL_". */
static const char *const nccl_network_names[] = {
	/* selection and general */
	"NET",
	"NET_PLUGIN",
	"NET_PLUGIN_REF_COUNT",
	"HOSTID",
	"COMM_ID",
	"IB_DISABLE",
	"NET_SHARED_BUFFERS",
	"NET_SHARED_COMMS",
	"NET_DISABLE_INTRA",
	"NET_FORCE_FLUSH",
	"GDR_FLUSH_DISABLE",
	"NET_OVERHEAD",
	"NET_OPTIONAL_RECV_COMPLETION",
	"NET_MERGE_LEVEL",
	"NET_FORCE_MERGE",
	"NET_MERGE_POLICY",
	"NETDEVS_POLICY",
	"IGNORE_NET_MISMATCH",
	"NCHANNELS_PER_NET_PEER",
	"CROSS_NIC",
	"PXN_DISABLE",
	"PXN_C2C",
	"P2P_PXN_LEVEL",
	"RUNTIME_CONNECT",
	"OOB_NET_ENABLE",
	"OOB_NET_IFNAME",
	"PROXY_CPUSET",
	/* GPUDirect */
	"NET_GDR_LEVEL",
	"NET_GDR_READ",
	"NET_GDR_C2C",
	"NET_GDR_MLOPART",
	"DMABUF_ENABLE",
	"GDRCOPY_ENABLE",
	"GDRCOPY_SYNC_ENABLE",
	"GDRCOPY_FLUSH_ENABLE",
	"GDRCOPY_FIFO_ENABLE",
	/* sockets */
	"SOCKET_IFNAME",
	"SOCKET_FAMILY",
	"SOCKET_NTHREADS",
	"NSOCKS_PERTHREAD",
	"SOCKET_INLINE",
	"SOCKET_MIN_TASKSIZE",
	"SOCKET_RCVBUF",
	"SOCKET_SNDBUF",
	"SOCKET_RETRY_CNT",
	"SOCKET_RETRY_SLEEP_MSEC",
	"SOCKET_POLL_TIMEOUT_MSEC",
	"SOCKET_MAGIC",
	/* InfiniBand and RoCE */
	"IB_HCA",
	"IB_TIMEOUT",
	"IB_RETRY_CNT",
	"IB_GID_INDEX",
	"IB_ADDR_FAMILY",
	"IB_ADDR_RANGE",
	"IB_ROCE_VERSION_NUM",
	"IB_ROUTABLE_FLID_GID_INDEX",
	"IB_SL",
	"IB_TC",
	"IB_FIFO_TC",
	"IB_PKEY",
	"IB_AR_THRESHOLD",
	"IB_ADAPTIVE_ROUTING",
	"IB_QPS_PER_CONNECTION",
	"IB_SPLIT_DATA_ON_QPS",
	"IB_USE_INLINE",
	"IB_PCI_RELAXED_ORDERING",
	"IB_MERGE_VFS",
	"IB_MERGE_NICS",
	"IB_ECE_ENABLE",
	"IB_RETURN_ASYNC_EVENTS",
	"IB_WARN_RAIL_LOCAL",
	"IB_MQP_RETRY_ALL",
	"IB_MQP_RETRY_CNT",
	"IB_MQP_RETRY_SLEEP_MSEC",
	"IB_DATA_DIRECT",
	"IB_DEVICE_PCI_ORDER",
	"IB_PREPOST_RECEIVE_WORK_REQUESTS",
	"IB_RECEIVER_SIDE_MATCHING_SCHEME",
	"IB_RESILIENCY_PORT_FAILOVER",
	"IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS",
	"IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY",
	"IB_RESILIENCY_PORT_RECOVERY",
	"IB_OOO_RQ",
	"IB_SUBNET_AWARE_ROUTING",
	"IB_SUBNET_PREFIX_LEN",
	"IB_QUERY_PORT_SPEED",
	"IBVERBS_LIB",
	"IB_CUDA_SUPPORT",
};

/* Real variables of NCCL that are not about networks but lie within two letters of one that is. */
static const char *const nccl_lookalikes[] = { "P2P_DISABLE", "NVB_DISABLE", "ENV_PLUGIN" };

/* Variables of ours that are not settings of the table: include/nccl_net/log.h. */
static const char *const own_other_names[] = { "ANYNET_DEBUG" };

static size_t min3(size_t a, size_t b, size_t c)
{
	return anynet_min(anynet_min(a, b), c);
}

static bool same_letter(char a, char b)
{
	return toupper((unsigned char)a) == toupper((unsigned char)b);
}

/* Letters to insert, drop, replace, or swap with their neighbour to turn `a` into `b`, ignoring
 * case. FAR if either is too long to be compared. */
static size_t edit_distance(const char *a, const char *b)
{
	unsigned char row[3][NAME_MAX_BYTES + 1]; /* of the table: this one and the two before */
	size_t a_bytes = strlen(a), b_bytes = strlen(b);

	if (a_bytes > NAME_MAX_BYTES || b_bytes > NAME_MAX_BYTES)
		return FAR;
	for (size_t j = 0; j <= b_bytes; j++)
		row[0][j] = (unsigned char)j;
	for (size_t i = 1; i <= a_bytes; i++) {
		unsigned char *now = row[i % 3];
		const unsigned char *before = row[(i + 2) % 3], *before2 = row[(i + 1) % 3];

		now[0] = (unsigned char)i;
		for (size_t j = 1; j <= b_bytes; j++) {
			bool same = same_letter(a[i - 1], b[j - 1]);
			size_t best = min3(before[j] + 1u, now[j - 1] + 1u, before[j - 1] + !same);

			if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
			    same_letter(a[i - 2], b[j - 1]))
				best = anynet_min(best, before2[j - 2] + 1u);
			now[j] = (unsigned char)best;
		}
	}
	return row[a_bytes % 3][b_bytes];
}

struct nearest {
	const char *name;
	size_t distance;
};

static void nearer(struct nearest *nearest, const char *typed, const char *name)
{
	size_t distance = edit_distance(typed, name);

	if (distance < nearest->distance)
		*nearest = (struct nearest){ name, distance };
}

static void check_own_name(const char *typed)
{
	struct nearest nearest = { NULL, FAR };

	for (size_t i = 0; i < anynet_config_row_count; i++)
		nearer(&nearest, typed, anynet_config_rows[i].name);
	for (size_t i = 0; i < ARRAY_SIZE(own_other_names); i++)
		nearer(&nearest, typed, own_other_names[i]);
	if (nearest.name && !strcmp(typed, nearest.name))
		return;
	if (nearest.distance <= (strlen(typed) - strlen("ANYNET_")) / 2)
		anynet_warn("%.80s is not a setting; did you mean %s?", typed, nearest.name);
	else
		anynet_warn("%.80s is not a setting; `anynet config` lists them all", typed);
}

static bool in_list(const char *name, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!strcmp(name, list[i]))
			return true;
	}
	return false;
}

/* A short name has many neighbours: the shorter, the nearer it must be. */
static size_t typo_distance(const char *name)
{
	size_t bytes = strlen(name);

	return bytes < 4 ? 0 : bytes < 8 ? 1 : 2;
}

static void check_nccl_name(const char *typed)
{
	const char *name = typed + strlen("NCCL_");
	struct nearest nearest = { NULL, FAR };

	if (!strncmp(typed, "NCCL_", 5) &&
	    (in_list(name, nccl_network_names, ARRAY_SIZE(nccl_network_names)) ||
	     in_list(name, nccl_lookalikes, ARRAY_SIZE(nccl_lookalikes))))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(nccl_network_names); i++)
		nearer(&nearest, name, nccl_network_names[i]);
	if (nearest.distance <= typo_distance(name))
		anynet_warn("%.80s is not a variable of NCCL; did you mean NCCL_%s?", typed,
			    nearest.name);
}

void anynet_config_check_names(void)
{
	for (char *const *entry = environ; entry && *entry; entry++) {
		char name[128];
		size_t bytes = strcspn(*entry, "=");

		if (bytes >= sizeof(name))
			continue;
		memcpy(name, *entry, bytes);
		name[bytes] = 0;
		if (!strncasecmp(name, "ANYNET_", 7))
			check_own_name(name);
		else if (!strncasecmp(name, "NCCL_", 5))
			check_nccl_name(name);
	}
}
