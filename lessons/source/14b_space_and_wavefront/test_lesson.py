"""Lesson 14b: cuts by layers, channels and space, and the wavefront, train one network.

Every sentence in bold of the lesson is a cell whose output is compared, or a test here.
"""

import sys
from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch.nn import functional as F

from demos.model_parallel import three_ways_to_split
from parallel_by_hand.model_parallel.convolution_cuts import (
    bytes_of_splits,
    make_convolutions,
    scores_by_space,
    scores_of_images,
    with_halo,
)
from parallel_by_hand.model_parallel.three_ways_to_split import (
    WAYS,
    digits_for_step,
    train_split,
)
from parallel_by_hand.model_parallel.wavefront_flow import (
    rehearse_wavefront,
    slots_of_naps,
)
from sidebyside import device, run_ranks

# Half an image ------------------------------------------------------------------------


def gradients_of_whole_loss() -> tuple[torch.Tensor, torch.Tensor]:
    """Runs in each rank: of halves that each take the whole loss, and of one piece."""
    found, (images, labels) = [], digits_for_step(3, 32)
    images = images.double()
    rows = images.chunk(2, dim=2)[dist.get_rank()]
    for split in (True, False):
        network = make_convolutions().double().to(device())
        halves = partial(scores_by_space, network, rows, 64, with_halo)
        scores = halves() if split else scores_of_images(network, images)
        F.cross_entropy(scores, labels).backward()
        found.append(torch.cat([p.grad.flatten() for p in network.parameters()]))
    dist.all_reduce(found[0])
    return tuple(gradient.cpu() for gradient in found)


def test_what_the_ranks_call_backward_on_must_add_up_to_the_loss():
    """If both take the whole loss, it counts twice."""
    for twice, gradient in run_ranks(gradients_of_whole_loss):
        torch.testing.assert_close(twice, 2 * gradient, rtol=0, atol=1e-12)


# Three ways to split ------------------------------------------------------------------


@pytest.mark.parametrize(("batch", "zoom", "maps"), [(64, 1, 16), (3, 2, 6)])
@pytest.mark.parametrize("way", WAYS)
def test_the_bytes_are_the_predicted_ones(way, batch, zoom, maps):
    channels = (1, maps, maps, 10)
    predicted = bytes_of_splits(batch, channels, 8 * zoom, 8 * zoom)[way]
    for part in run_ranks(train_split, way, 1, batch, zoom, maps):
        assert part.sent == predicted


def test_a_halo_grows_with_the_width_and_maps_with_the_area():
    """Without what does not depend on the image: weights, and sums for the scores."""
    channels, fixed = (1, 16, 16, 10), bytes_of_splits(64, (1, 16, 16, 10), 0, 0)
    small, large = (
        {
            way: sent - fixed[way]
            for way, sent in bytes_of_splits(64, channels, n, n).items()
        }
        for n in (8, 32)
    )
    assert large["space"] == 4 * small["space"]
    assert large["layers"] == 16 * small["layers"]
    assert large["channels"] == 16 * small["channels"]
    photographs = bytes_of_splits(8, (3, 64, 64, 10), 224, 224)
    assert round(photographs["layers"] / photographs["space"]) == 50
    many_maps = bytes_of_splits(4, (1, 512, 512, 10), 8, 8)
    assert min(many_maps, key=many_maps.get) == "layers"


# The wavefront ------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 2, 3, 8])
def test_sleeping_ranks_run_every_cell_after_what_it_needs(chunk):
    """There and back; and a rank begins with the first chunk of the rank before."""
    timeline = rehearse_wavefront(3, 6, chunk, seconds=0.004, backward=True)
    ends, begins = {}, {}
    for nap in timeline.spans:
        if nap.name != "wait":
            kind, step = nap.name.split()
            cell = kind, int(nap.lane.split()[1]), int(step)
            begins[cell], ends[cell] = nap.start, nap.end
    assert len(begins) == 2 * 3 * 6
    for (kind, layer, step), begin in begins.items():
        back = kind == "backward"
        other = (kind, layer + (1 if back else -1), step)
        before = (kind, layer, step + (1 if back else -1))
        for needed in other, before:
            assert ends.get(needed, 0) <= begin
    slots = slots_of_naps(timeline, 0.004)
    assert slots >= 2 * (6 + min(chunk, 6) * 2) - 0.01, "no plan is shorter"


def test_the_demos_refuse_an_odd_number_of_maps(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["three_ways_to_split.py", "--maps", "7"])
    with pytest.raises(SystemExit) as ended:
        three_ways_to_split.main()
    assert ended.value.code == 2
    assert "two ranks need an even number" in capsys.readouterr().err
