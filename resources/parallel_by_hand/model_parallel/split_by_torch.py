"""torch's own cut of a model: pipeline() and SplitPoint, without its noise."""

import os
import warnings
from tempfile import TemporaryDirectory

from torch import Tensor, nn


def import_pipelining():
    """torch.distributed.pipelining, without the empty folder that its import leaves."""
    chosen = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    with TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = chosen or folder
        from torch.distributed import pipelining
    del os.environ["TORCHINDUCTOR_CACHE_DIR"]
    if chosen is not None:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = chosen
    return pipelining


def split_by_torch(model: nn.Module, example: Tensor, before: str) -> list[nn.Module]:
    """The two parts of `model`, cut by torch in front of the submodule `before`."""
    pipelining = import_pipelining()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of torch about torch
        before_it = {before: pipelining.SplitPoint.BEGINNING}
        pipe = pipelining.pipeline(model, (example,), split_spec=before_it)
    return [pipe.get_stage_module(stage) for stage in range(pipe.num_stages)]
