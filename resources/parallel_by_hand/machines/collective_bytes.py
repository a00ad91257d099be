"""How many bytes a rank sends in the library's all_reduce and all_gather."""

from unittest import mock

import torch
import torch.distributed as dist


class CollectiveBytes:
    """`with CollectiveBytes() as sent:` inside a rank counts into `sent.bytes`.

    It takes the sizes of what `dist.all_reduce` and `dist.all_gather` are given, and
    what a ring of N ranks sends for them: 2 (N - 1) / N of a tensor, and N - 1 tensors.
    DDP's hooks, which are written in Python, call these two; DDP without a hook sends
    from its own C++ code, and is not seen.
    """

    def __init__(self):
        self.bytes = 0

    def __enter__(self) -> "CollectiveBytes":
        self.library = {n: getattr(dist, n) for n in ("all_reduce", "all_gather")}
        own = {"all_reduce": self.all_reduce, "all_gather": self.all_gather}
        self.patch = mock.patch.multiple(dist, **own)
        self.patch.start()
        return self

    def __exit__(self, *exception) -> None:
        self.patch.stop()

    def all_reduce(self, tensor: torch.Tensor, *args, **options):
        ranks = dist.get_world_size()
        self.bytes += 2 * (ranks - 1) * tensor.nbytes // ranks
        return self.library["all_reduce"](tensor, *args, **options)

    def all_gather(self, tensors: list, tensor: torch.Tensor, *args, **options):
        self.bytes += (dist.get_world_size() - 1) * tensor.nbytes
        return self.library["all_gather"](tensors, tensor, *args, **options)
