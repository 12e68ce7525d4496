/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and sets. */
#include "runtime.h"

#include <string.h>

struct copy_op {
	struct op op;
	void *to;
	const void *from;
	size_t bytes;
	char staged[]; /* contents of pageable memory when the copy was submitted */
};

struct set_op {
	struct op op;
	void *memory;
	int value;
	size_t bytes;
};

static void copy_run(struct op *op)
{
	const struct copy_op *copy = (struct copy_op *)op;

	memmove(copy->to, copy->from, copy->bytes);
}

static void set_run(struct op *op)
{
	const struct set_op *set = (struct set_op *)op;

	memset(set->memory, set->value, set->bytes);
}

/* The side that a direction declares as the device's. Pinned memory is accepted: addresses are unified. */
static cudaError_t direction_check(enum cudaMemcpyKind kind, enum place to, enum place from)
{
	bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
	bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;

	if ((int)kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
		return cudaErrorInvalidMemcpyDirection;
	if (to == PLACE_BROKEN || from == PLACE_BROKEN)
		return cudaErrorInvalidValue;
	if ((to_device && to == PLACE_PAGEABLE) || (from_device && from == PLACE_PAGEABLE))
		return cudaErrorInvalidValue;
	return cudaSuccess;
}

/* Pageable memory, source or destination, is the caller's again when this returns. */
static cudaError_t copy_push(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
			     cudaStream_t stream)
{
	enum place to_place, from_place;
	struct copy_op *copy;
	struct range range;
	cudaError_t ret;
	bool is_staged;

	if (!bytes)
		return cudaSuccess;
	if (!to || !from)
		return cudaErrorInvalidValue;
	to_place = range_find(to, bytes, &range);
	from_place = range_find(from, bytes, &range);
	ret = direction_check(kind, to_place, from_place);
	if (ret)
		return ret;
	is_staged = from_place == PLACE_PAGEABLE && to_place != PLACE_PAGEABLE;
	copy = op_new(sizeof(*copy) + (is_staged ? bytes : 0), copy_run);
	if (!copy)
		return cudaErrorMemoryAllocation;
	copy->to = to;
	copy->from = is_staged ? memcpy(copy->staged, from, bytes) : from;
	copy->bytes = bytes;
	ret = stream_push(stream, &copy->op);
	return ret || to_place != PLACE_PAGEABLE ? ret : stream_finish(stream);
}

static cudaError_t set_push(void *memory, int value, size_t bytes, cudaStream_t stream)
{
	struct range range;
	struct set_op *set;
	enum place place;

	if (!bytes)
		return cudaSuccess;
	place = range_find(memory, bytes, &range);
	if (place == PLACE_PAGEABLE || place == PLACE_BROKEN)
		return cudaErrorInvalidValue;
	set = op_new(sizeof(*set), set_run);
	if (!set)
		return cudaErrorMemoryAllocation;
	set->memory = memory;
	set->value = value;
	set->bytes = bytes;
	return stream_push(stream, &set->op);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
			    cudaStream_t stream)
{
	return report(copy_push(to, from, bytes, kind, stream));
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
	cudaError_t ret = copy_push(to, from, bytes, kind, NULL);

	return report(ret ? ret : stream_finish(NULL));
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
	return report(set_push(memory, value, bytes, stream));
}

cudaError_t cudaMemset(void *memory, int value, size_t bytes)
{
	cudaError_t ret = set_push(memory, value, bytes, NULL);

	return report(ret ? ret : stream_finish(NULL));
}

/* The hints about the kind of memory are not needed. */
cudaError_t cudaMemcpyBatchAsync(void *const *to, const void *const *from, const size_t *bytes,
				 size_t count, struct cudaMemcpyAttributes *attributes,
				 size_t *attributes_from, size_t attributes_count,
				 cudaStream_t stream)
{
	cudaError_t ret = cudaSuccess;

	if (!stream || stream == cudaStreamLegacy || !to || !from || !bytes || !attributes ||
	    !attributes_from || !attributes_count || attributes_count > count)
		return report(cudaErrorInvalidValue);
	for (size_t i = 0; i < attributes_count; i++)
		if (attributes[i].srcAccessOrder != cudaMemcpySrcAccessOrderStream &&
		    attributes[i].srcAccessOrder != cudaMemcpySrcAccessOrderAny)
			return report(cudaErrorNotSupported);
	for (size_t i = 0; i < count && !ret; i++)
		ret = copy_push(to[i], from[i], bytes[i], cudaMemcpyDefault, stream);
	return report(ret);
}
