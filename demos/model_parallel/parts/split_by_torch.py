"""torch's own cut of a model: pipeline() and SplitPoint, without its noise."""

import os
import warnings
from tempfile import TemporaryDirectory

from torch import Tensor, nn


def split_by_torch(model: nn.Module, example: Tensor, before: str) -> list[nn.Module]:
    """The two parts of `model`, cut by torch in front of the submodule `before`.

    torch traces the model with `example` and writes a module for each part.
    """
    with TemporaryDirectory() as folder:  # the import makes a cache that nobody needs
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", folder)
        from torch.distributed.pipelining import SplitPoint, pipeline

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of torch about torch
        pipe = pipeline(model, (example,), split_spec={before: SplitPoint.BEGINNING})
    return [pipe.get_stage_module(stage) for stage in range(pipe.num_stages)]
