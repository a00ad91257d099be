"""Lesson 14b: cuts by layers, channels and space, and the wavefront, train one network.

Every sentence in bold of the lesson is a cell whose output is compared, or a test here.
"""

import sys
from functools import partial
from pathlib import Path
from time import perf_counter, sleep

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from demos.model_parallel import three_ways_to_split
from parallel_by_hand.model_parallel import wavefront
from parallel_by_hand.model_parallel.convolution_cuts import (
    Swap,
    bytes_of_splits,
    make_convolutions,
    scores_by_space,
    scores_of_images,
    with_halo,
)
from parallel_by_hand.model_parallel.three_ways_to_split import (
    WAYS,
    digits_for_step,
    gap_to_one_process,
    train_split,
)
from parallel_by_hand.model_parallel.wavefront import (
    gap_of_flow,
    layer_of_rank,
    train_layer_of_rank,
    train_unsplit_layers,
)
from parallel_by_hand.model_parallel.wavefront_flow import (
    rehearse_wavefront,
    slots_of_naps,
)
from sidebyside import Timeline, device, run_ranks, span

# Half an image ------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_each_convolution_spoils_one_row_more_on_each_side_of_the_cut(layers):
    torch.manual_seed(0)
    network = nn.Sequential(*(nn.Conv2d(2, 2, 3, padding=1) for _ in range(layers)))
    images = torch.randn(4, 2, 12, 5)
    halves = torch.cat([network(half) for half in images.chunk(2, 2)], 2)
    wrong = (halves - network(images)).abs().amax(dim=(0, 1, 3)) > 1e-6
    assert wrong.nonzero().flatten().tolist() == list(range(6 - layers, 6 + layers))


def scores_and_gradient(
    swap, rows: int, share: float = 1 / 2
) -> tuple[torch.Tensor, torch.Tensor]:
    """Runs in each rank, in 64 bits; the upper rank has `rows` of eight."""
    network = make_convolutions().double().to(device())
    images, labels = digits_for_step(3, 32)
    part = slice(0, rows) if dist.get_rank() == 0 else slice(rows, 8)
    halo = partial(with_halo, swap=swap)
    scores = scores_by_space(network, images.double()[:, :, part], 64, halo)
    (F.cross_entropy(scores, labels) * share).backward()
    gradient = torch.cat([p.grad.flatten() for p in network.parameters()])
    dist.all_reduce(gradient)
    return scores.detach().cpu(), gradient.cpu()


def whole_scores_and_gradient() -> tuple[torch.Tensor, torch.Tensor]:
    network = make_convolutions().double()
    images, labels = (data.cpu() for data in digits_for_step(3, 32))
    scores = scores_of_images(network, images.double())
    F.cross_entropy(scores, labels).backward()
    gradient = torch.cat([p.grad.flatten() for p in network.parameters()])
    return scores.detach(), gradient


def one_way(mine: torch.Tensor, peer: int) -> torch.Tensor:
    return Swap.apply(mine.detach(), peer)


@pytest.mark.parametrize("rows", [1, 6])
def test_by_space_outputs_and_gradients_are_those_of_the_whole(rows):
    scores, gradient = whole_scores_and_gradient()
    for ours, of_ours in run_ranks(scores_and_gradient, Swap.apply, rows):
        torch.testing.assert_close(ours, scores, rtol=0, atol=1e-13)
        torch.testing.assert_close(of_ours, gradient, rtol=0, atol=1e-13)


def test_what_the_ranks_call_backward_on_must_add_up_to_the_loss():
    """If both take the whole loss, it counts twice."""
    _, gradient = whole_scores_and_gradient()
    for _, twice in run_ranks(scores_and_gradient, Swap.apply, 4, 1.0):
        torch.testing.assert_close(twice, 2 * gradient, rtol=0, atol=1e-12)


def test_without_the_way_back_outputs_are_right_and_gradients_of_two_layers_wrong():
    """The planted bug misbehaves, by far more than rounding; not in the last layer."""
    sizes = [
        sum(p.numel() for p in layer.parameters()) for layer in make_convolutions()
    ]
    scores, gradient = whole_scores_and_gradient()
    for ours, of_ours in run_ranks(scores_and_gradient, one_way, 4):
        torch.testing.assert_close(ours, scores, rtol=0, atol=1e-13)
        *front, last = zip(of_ours.split(sizes), gradient.split(sizes), strict=True)
        for mine, right in front:
            assert (mine - right).norm() > 0.01 * right.norm()
        torch.testing.assert_close(*last, rtol=0, atol=1e-13)


# Three ways to split ------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_each_way_trains_what_one_process_trains(way):
    """After every step, with plain SGD; by space the replicas are equal bit for bit."""
    one = run_ranks(train_split, "one process", 6, world_size=1)[0].history
    parts = run_ranks(train_split, way, 6)
    assert gap_to_one_process(way, parts, one) <= 1e-6
    assert (one[0][2] - one[-1][2]).abs().max() > 1e-3, "it has learned something"


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


def test_by_space_a_rank_keeps_its_rows_and_the_halo_and_by_channels_all_maps():
    kept = {}
    for way in WAYS:
        kept[way] = run_ranks(train_split, way, 1)[0].kept
    one = run_ranks(train_split, "one process", 1, world_size=1)[0].kept
    assert kept["channels"] == one
    assert kept["space"] == pytest.approx(6 / 8 * one, rel=0.01)


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


@pytest.mark.parametrize(("layers", "chunk"), [(2, 3), (3, 2)])
def test_the_wavefront_trains_what_torchs_own_layers_train(layers, chunk):
    """After every step, with plain SGD."""
    ranks = run_ranks(train_layer_of_rank, chunk, 24, 5, 16, world_size=layers)
    whole = train_unsplit_layers(layers, 24, 5, 16)
    assert gap_of_flow(ranks, whole) <= 1e-6
    assert (whole[0][0] - whole[-1][0]).abs().max() > 1e-4
    for rank in ranks[:-1]:
        assert rank.sent == 8 * 16 * 24 * 4 * (1 if rank is ranks[0] else 2)
        messages = -(-8 // chunk)
        assert rank.messages == messages * (1 if rank is ranks[0] else 2)


class WatchedLayer(nn.Module):
    """A rank's real layer; rank 0 ends its last chunk when rank 1 has begun one.

    Where rank 1 cannot begin, rank 0 gives up after `patience` seconds.
    """

    def __init__(self, layer: nn.LSTM, folder: Path, last: int, patience: float):
        super().__init__()
        self.layer, self.folder = layer, folder
        self.last, self.patience, self.flow = last, patience, -1

    def forward(self, piece: torch.Tensor, state: tuple | None) -> tuple:
        if state is None:
            self.flow, self.chunk = self.flow + 1, 0
        begun = self.folder / f"flow {self.flow}"
        with span(f"flow {self.flow} chunk {self.chunk}"):
            done = self.layer(piece, state)
            if dist.get_rank() == 1:
                begun.touch()
            elif self.chunk == self.last:
                latest = perf_counter() + self.patience
                while perf_counter() < latest and not begun.exists():
                    sleep(0.01)
        self.chunk += 1
        return done


def time_watched_layers(chunk: int, folder: Path) -> dict[str, float]:
    """Runs in each rank: the lesson's timing, with layers that are watched."""
    last, patience = 8 // chunk - 1, 0.3 if chunk == 8 else 10
    wavefront.layer_of_rank = lambda whole, rank: WatchedLayer(
        layer_of_rank(whole, rank), folder, last, patience
    )
    return wavefront.time_flow_and_alone(16, [chunk], rounds=1)


@pytest.mark.parametrize("chunk", [2, 8])
def test_only_in_chunks_a_real_layer_begins_before_the_one_below_has_ended(
    chunk, tmp_path
):
    with Timeline() as timeline:
        times, of_other = run_ranks(time_watched_layers, chunk, tmp_path)
    found = {(s.lane, s.name): s for s in timeline.spans if s.name != "wait"}
    assert len(found) == 2 * 2 * 8 // chunk
    for flow in range(2):
        ended = found["rank 0", f"flow {flow} chunk {8 // chunk - 1}"].end
        beside = found["rank 1", f"flow {flow} chunk 0"].start < ended
        assert beside == (chunk < 8)
    assert times == of_other, "the slowest rank's time counts"
    assert list(times) == ["alone", str(chunk)]


def test_the_demos_refuse_an_odd_number_of_maps(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["three_ways_to_split.py", "--maps", "7"])
    with pytest.raises(SystemExit) as ended:
        three_ways_to_split.main()
    assert ended.value.code == 2
    assert "two ranks need an even number" in capsys.readouterr().err
