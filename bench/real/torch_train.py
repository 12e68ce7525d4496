#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small transformer, by DDP or FSDP, all ranks on one GPU; rank 0 prints every loss with all
its bits. Usage: torch_train.py ddp|fsdp, with RANK, WORLD_SIZE and MEET (a file that is not there)."""
import os
import sys

STEPS = 20
VOCABULARY, WIDTH, LENGTH, BATCH = 128, 128, 32, 8


def make_model(torch):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(VOCABULARY, WIDTH)
            layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
            self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = torch.nn.Linear(WIDTH, VOCABULARY)

        def forward(self, tokens):
            return self.head(self.layers(self.words(tokens)))

    return Model()


def wrap(torch, mode, model):
    if mode == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])
    from torch.distributed.fsdp import FullyShardedDataParallel

    return FullyShardedDataParallel(model, device_id=0)


def train(torch, mode, rank, size):
    torch.manual_seed(1)  # the same model everywhere
    model = wrap(torch, mode, make_model(torch).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(100 + rank)
    for step in range(STEPS):
        # Each word is the one before it, and a bit: something to learn.
        first = torch.randint(VOCABULARY, (BATCH, 1), generator=data)
        tokens = ((first + 3 * torch.arange(LENGTH + 1)) % VOCABULARY).cuda()
        scores = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        torch.distributed.all_reduce(mean)
        if rank == 0:
            print(f"loss {step} {(mean / size).item().hex()}", flush=True)


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in ("ddp", "fsdp"):
        sys.exit(__doc__)
    import torch

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.cuda.set_device(0)
    torch.distributed.init_process_group(
        "nccl", init_method="file://" + os.environ["MEET"], rank=rank, world_size=size)
    train(torch, sys.argv[1], rank, size)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
