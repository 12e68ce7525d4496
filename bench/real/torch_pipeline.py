#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A pipeline: each rank has one layer, activations go to the next rank and gradients back, all on one
GPU. Each rank knows the whole model and compares with what it gives without a network, bit by bit.
Usage: torch_pipeline.py, with RANK, WORLD_SIZE and MEET (a file that is not there)."""
import os
import sys

WIDTH, BATCH, MICROBATCHES = 512, 64, 8


def make_layers(torch, count):
    torch.manual_seed(1)
    return [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()).cuda() for _ in range(count)]


def batch(torch, number):
    return torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(number)).cuda()


def expected(torch, rank, size):
    """This rank's gradients after all microbatches, computed alone, in the same order."""
    layers = make_layers(torch, size)
    for number in range(MICROBATCHES):
        data = batch(torch, number)
        for layer in layers:
            data = layer(data)
        data.square().mean().backward()
    return [p.grad for p in layers[rank].parameters()]


def step(torch, layer, rank, size, number):
    dist = torch.distributed
    data = batch(torch, number)
    if rank > 0:
        dist.recv(data, rank - 1)
        data.requires_grad_()
    out = layer(data)
    if rank == size - 1:
        out.square().mean().backward()
    else:
        dist.send(out.detach(), rank + 1)
        grad = torch.empty_like(out)
        dist.recv(grad, rank + 1)
        out.backward(grad)
    if rank > 0:
        dist.send(data.grad, rank - 1)


def main():
    import torch

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.use_deterministic_algorithms(True)
    torch.cuda.set_device(0)
    torch.distributed.init_process_group(
        "nccl", init_method="file://" + os.environ["MEET"], rank=rank, world_size=size)
    layer = make_layers(torch, size)[rank]
    for number in range(MICROBATCHES):
        step(torch, layer, rank, size, number)
    right = all(torch.equal(p.grad, want)
                for p, want in zip(layer.parameters(), expected(torch, rank, size)))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    print("gradients are", "right" if right else "WRONG")
    sys.exit(0 if right else 2)


if __name__ == "__main__":
    main()
