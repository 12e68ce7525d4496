/* SPDX-License-Identifier: Apache-2.0 */
/* libibverbs, opened at run time; see verbs.h. */
#include "device/verbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include <nccl_net/util.h>

#include "base/library.h"

#define MIN_RNR_TIMER 12 /* 0.64 ms */

#define ENTRY(function)                                                                  \
	{                                                                                \
		"ibv_" #function, offsetof(struct verbs, function), "IBVERBS_1.1", false \
	}
#define NEWER(name, function, version)                             \
	{                                                          \
		name, offsetof(struct verbs, function), version, true \
	}

/*
 * Functions of libibverbs, required ones and those of newer releases. Each function of 1.1 also exists as @IBVERBS_1.0
 * with other types, so they are looked up with their version (net-api.md §6 trap 6).
 */
static const struct library_function functions[] = {
	ENTRY(get_device_list),
	ENTRY(free_device_list),
	ENTRY(get_device_name),
	ENTRY(open_device),
	ENTRY(close_device),
	ENTRY(query_device),
	ENTRY(query_port),
	ENTRY(query_gid),
	ENTRY(alloc_pd),
	ENTRY(dealloc_pd),
	ENTRY(reg_mr),
	ENTRY(dereg_mr),
	ENTRY(create_cq),
	ENTRY(destroy_cq),
	ENTRY(create_qp),
	ENTRY(modify_qp),
	ENTRY(query_qp),
	ENTRY(destroy_qp),
	ENTRY(get_async_event),
	ENTRY(ack_async_event),
	NEWER("ibv_fork_init", fork_init, "IBVERBS_1.1"),
	NEWER("ibv_reg_mr_iova2", reg_mr_iova2, "IBVERBS_1.8"),
	NEWER("ibv_query_ece", query_ece, "IBVERBS_1.10"),
	NEWER("ibv_set_ece", set_ece, "IBVERBS_1.10"),
	NEWER("_ibv_query_gid_table", query_gid_table, "IBVERBS_1.11"),
	NEWER("ibv_reg_dmabuf_mr", reg_dmabuf_mr, "IBVERBS_1.12"),
	NEWER("ibv_query_port_speed", query_port_speed, "IBVERBS_1.16"),
};

int verbs_open(const char *file, struct verbs *verbs, char *why, size_t why_bytes)
{
	return library_open(file, functions, ARRAY_SIZE(functions), verbs, why, why_bytes);
}

void verbs_close(struct verbs *verbs)
{
	if (verbs->library)
		dlclose(verbs->library);
	*verbs = (struct verbs){ .library = NULL };
}

int verbs_modify_qp(const struct verbs *verbs, struct ibv_qp *qp, struct ibv_qp_attr *attr,
		    int mask)
{
	int ret;

	errno = 0;
	ret = verbs->modify_qp(qp, attr, mask);
	if (ret >= 0)
		return -ret;
	return errno ? -errno : -EIO;
}

int verbs_to_init(const struct verbs *verbs, struct ibv_qp *qp, uint8_t port, int pkey_index,
		  unsigned access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = (uint16_t)pkey_index,
		.port_num = port,
		.qp_access_flags = access,
	};

	return verbs_modify_qp(verbs, qp, &attr,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS);
}

int verbs_to_rtr(const struct verbs *verbs, struct ibv_qp *qp, const struct ib_path *path, int mask)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = path->mtu,
		.dest_qp_num = path->qpn,
		.rq_psn = path->recv_psn,
		.pkey_index = path->pkey_index,
		.max_dest_rd_atomic = path->reads,
		.min_rnr_timer = MIN_RNR_TIMER,
		.ah_attr = path->ah,
	};

	return verbs_modify_qp(verbs, qp, &attr,
			       mask | IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER);
}

int verbs_to_rts(const struct verbs *verbs, struct ibv_qp *qp, const struct ib_path *path)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = path->timeout,
		.retry_cnt = path->retries,
		.rnr_retry = path->rnr_retries,
		.sq_psn = path->send_psn,
		.max_rd_atomic = path->reads,
	};

	return verbs_modify_qp(verbs, qp, &attr,
			       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* --- libmlx5 --- */

#define REG_DATA_DIRECT 1 /* MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT */

/* Declared as in <infiniband/mlx5dv.h> of rdma-core 56. */
static struct {
	int (*data_direct_path)(struct ibv_context *context, char *path, size_t bytes);
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t bytes,
					uint64_t iova, int fd, int access, int mlx5_access);
} mlx5;

static void find_mlx5(const char *name, void *function, void *library)
{
	void *address = dlvsym(library, name, "MLX5_1.25");

	memcpy(function, &address, sizeof(address));
}

/* Finds the functions in libmlx5, which libibverbs loads for mlx5 devices and never unloads. In tests libibverbs has
 * them itself. */
static bool open_mlx5(const struct verbs *verbs)
{
	void *library = verbs->library;

	find_mlx5("mlx5dv_reg_dmabuf_mr", &mlx5.reg_dmabuf_mr, library);
	if (!mlx5.reg_dmabuf_mr) {
		library = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_NOLOAD);
		if (!library)
			return false;
		find_mlx5("mlx5dv_reg_dmabuf_mr", &mlx5.reg_dmabuf_mr, library);
	}
	find_mlx5("mlx5dv_get_data_direct_sysfs_path", &mlx5.data_direct_path, library);
	return mlx5.reg_dmabuf_mr && mlx5.data_direct_path;
}

bool verbs_data_direct(const struct verbs *verbs, struct ibv_context *context, char *path,
		       size_t path_bytes)
{
	static const char root[] = "/sys";

	if (path_bytes < sizeof(root) || !open_mlx5(verbs))
		return false;
	memcpy(path, root, sizeof(root));
	return !mlx5.data_direct_path(context, path + sizeof(root) - 1,
				      path_bytes - (sizeof(root) - 1));
}

static struct ibv_mr *reg_data_direct(struct ibv_pd *pd, uint64_t offset, size_t bytes,
				      uint64_t iova, int fd, int access)
{
	return mlx5.reg_dmabuf_mr(pd, offset, bytes, iova, fd, access, REG_DATA_DIRECT);
}

struct verbs verbs_by_data_direct(const struct verbs *verbs)
{
	struct verbs direct = *verbs;

	direct.reg_dmabuf_mr = reg_data_direct;
	return direct;
}
