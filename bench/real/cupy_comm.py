#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CuPy's NcclCommunicator, all ranks on one GPU: all-reduce, broadcast, a ring of sends, checked.
Usage: cupy_comm.py, with RANK, WORLD_SIZE and MEET (a file that is not there)."""
import os
import pickle
import sys
import time

SIZES = [1, 1000, 1 << 20]  # floats
WAIT_S = 60


def meet(nccl, rank):
    """Rank 0 makes the id, the others read it from the file when it is whole."""
    path = os.environ["MEET"]
    if rank == 0:
        unique = nccl.get_unique_id()
        with open(path + ".new", "wb") as file:
            pickle.dump(unique, file)  # bytes, or a tuple before CuPy 14
        os.rename(path + ".new", path)
        return unique
    end = time.monotonic() + WAIT_S
    while not os.path.exists(path):
        if time.monotonic() > end:
            sys.exit("rank 0 has not come")
        time.sleep(0.01)
    with open(path, "rb") as file:
        return pickle.load(file)


def try_size(cupy, nccl, comm, rank, size, count):
    stream = cupy.cuda.Stream.null
    index = cupy.arange(count, dtype=cupy.float32) % 251
    send, recv = index + rank, cupy.full(count, cupy.nan, dtype=cupy.float32)

    comm.allReduce(send.data.ptr, recv.data.ptr, count, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, stream.ptr)
    stream.synchronize()
    right = bool((recv == index * size + size * (size - 1) // 2).all())

    recv.fill(cupy.nan)
    comm.broadcast(send.data.ptr, recv.data.ptr, count, nccl.NCCL_FLOAT32, size - 1, stream.ptr)
    stream.synchronize()
    right &= bool((recv == index + size - 1).all())

    recv.fill(cupy.nan)
    nccl.groupStart()
    comm.send(send.data.ptr, count, nccl.NCCL_FLOAT32, (rank + 1) % size, stream.ptr)
    comm.recv(recv.data.ptr, count, nccl.NCCL_FLOAT32, (rank - 1) % size, stream.ptr)
    nccl.groupEnd()
    stream.synchronize()
    return right & bool((recv == index + (rank - 1) % size).all())


def main():
    import cupy
    from cupy.cuda import nccl

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    cupy.cuda.Device(0).use()
    comm = nccl.NcclCommunicator(size, meet(nccl, rank), rank)
    right = all([try_size(cupy, nccl, comm, rank, size, count) for count in SIZES])
    comm.destroy()
    print("NCCL", nccl.get_version(), "results are", "right" if right else "WRONG")
    sys.exit(0 if right else 2)


if __name__ == "__main__":
    main()
