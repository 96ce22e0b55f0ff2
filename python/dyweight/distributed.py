"""Several processes that learn one solver, under torchrun: pairs are shared, and the result has the bytes of one process.

    torchrun --nproc-per-node 2 script.py         with   dyweight.train(model, nfe=5, micro_batch=8, comm=dyweight.Comm())

Work is shared in whole batches (`micro_batch`), so every call is the same whichever process makes it.
"""

from __future__ import annotations

import importlib
import os
from typing import Any


class Comm:
    """The processes of a job, over torch.distributed with gloo.

    Without torchrun it is one process:

    >>> import dyweight
    >>> comm = dyweight.Comm()
    >>> comm.rank, comm.size, comm.all_gather(b"here")
    (0, 1, [b'here'])

    Joins the process group that is there, or the one torchrun has prepared.
    """

    def __init__(self) -> None:
        self._dist: Any = None
        if int(os.environ.get("WORLD_SIZE", "1")) > 1 or self._is_initialised():
            self._dist = dist = importlib.import_module("torch.distributed")
            if not dist.is_initialized():
                dist.init_process_group("gloo")
            # Bytes are in main memory, whatever the group of the model is made for.
            self._group = dist.new_group(backend="gloo")
        self.rank: int = self._dist.get_rank() if self._dist else 0
        self.size: int = self._dist.get_world_size() if self._dist else 1

    @staticmethod
    def _is_initialised() -> bool:
        import sys

        dist = sys.modules.get("torch.distributed")
        return dist is not None and dist.is_available() and dist.is_initialized()

    def all_gather(self, mine: bytes) -> list[bytes]:
        """Every process's bytes, in the order of ranks."""
        if self._dist is None:
            return [mine]
        torch = importlib.import_module("torch")
        lengths = torch.zeros(self.size, dtype=torch.int64)
        lengths[self.rank] = len(mine)
        self._dist.all_reduce(lengths, group=self._group)
        longest = max(int(lengths.max()), 1)
        padded = torch.zeros(longest, dtype=torch.uint8)
        if mine:
            padded[: len(mine)] = torch.frombuffer(bytearray(mine), dtype=torch.uint8)
        parts = [torch.empty(longest, dtype=torch.uint8) for _ in range(self.size)]
        self._dist.all_gather(parts, padded, group=self._group)
        return [part[: int(n)].numpy().tobytes() for part, n in zip(parts, lengths)]

    def broadcast(self, mine: bytes) -> bytes:
        """The bytes of rank 0."""
        if self._dist is None:
            return mine
        torch = importlib.import_module("torch")
        length = torch.tensor([len(mine)])
        self._dist.broadcast(length, 0, group=self._group)
        empty = torch.zeros(int(length), dtype=torch.uint8)
        bytes_ = torch.frombuffer(bytearray(mine), dtype=torch.uint8) if self.rank == 0 and mine else empty
        if int(length):
            self._dist.broadcast(bytes_, 0, group=self._group)
        return bytes_.numpy().tobytes()

    def barrier(self) -> None:
        """Waits for all."""
        if self._dist is not None:
            self._dist.barrier(group=self._group)
