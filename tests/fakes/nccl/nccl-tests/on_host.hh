/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Included before each file of nccl-tests, which a C++ compiler makes programs for the software GPU of. Its kernels
 * go through their elements in steps of a block's threads, so that one block of one thread does all of them. What runs
 * in the stream is a host function that has copies of the arguments.
 */
#ifndef TESTS_FAKES_NCCL_ON_HOST_HH
#define TESTS_FAKES_NCCL_ON_HOST_HH

#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <tuple>
#include <utility>

/* Since 2.28 nccl-tests has kernels that send by themselves: they take NCCL's device code. */
#undef NCCL_VERSION_CODE
#define NCCL_VERSION_CODE NCCL_VERSION(2, 27, 7)

#define __launch_bounds__(...)
using std::max;
using std::min;

static constexpr uint3 blockIdx = { 0, 0, 0 }, threadIdx = { 0, 0, 0 };
static constexpr uint3 gridDim = { 1, 1, 1 }, blockDim = { 1, 1, 1 };

using softgpu_work = std::function<void()>;

template <auto kernel> struct softgpu_bound;
template <typename... Arguments, void (*kernel)(Arguments...)> struct softgpu_bound<kernel> {
	template <std::size_t... i> static softgpu_work *copy(void **arguments, std::index_sequence<i...>)
	{
		std::tuple<Arguments...> copies(*static_cast<Arguments *>(arguments[i])...);
		return new softgpu_work([copies] { std::apply(kernel, copies); });
	}
	static softgpu_work *work(void **arguments)
	{
		return copy(arguments, std::index_sequence_for<Arguments...>());
	}
};

/* What a kernel's address is replaced by. */
template <auto kernel> const void *softgpu_kernel()
{
	return reinterpret_cast<const void *>(&softgpu_bound<kernel>::work);
}

static void softgpu_run(void *data)
{
	softgpu_work *work = static_cast<softgpu_work *>(data);

	(*work)();
	delete work;
}

static inline cudaError_t softgpu_launch(const void *kernel, dim3, dim3, void **arguments, std::size_t,
					 cudaStream_t stream)
{
	auto make = reinterpret_cast<softgpu_work *(*)(void **)>(const_cast<void *>(kernel));

	return cudaLaunchHostFunc(stream, softgpu_run, make(arguments));
}
#define cudaLaunchKernel softgpu_launch

#endif
