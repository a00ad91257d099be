"""A convolutional network on two ranks: cut by layers, by channels and by space.

All convolutions are 3 × 3 with a border of zeros, so images keep their height and
width. The scores are the mean of the last maps over all pixels.
"""

# A ModuleList gives Modules, to torch; these are convolutions.
# pyright: reportArgumentType=false

from itertools import pairwise

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from parallel_by_hand.collectives.eight_collectives import exchange
from parallel_by_hand.model_parallel.cut_messages import SendForward, receive_across_cut

CHANNELS = (1, 16, 16, 10)  # of the image, of the two inner maps, and the scores


class Swap(torch.autograd.Function):
    """For cut convolutions: give `mine` to rank `peer`, and get the peer's tensor.

    In backward the gradients swap home: the peer has the gradient of `mine`.
    """

    @staticmethod
    def forward(ctx, mine: Tensor, peer: int) -> Tensor:
        ctx.peer = peer
        mine = mine.contiguous()
        theirs = torch.empty_like(mine)
        exchange({peer: mine}, {peer: theirs})
        return theirs

    @staticmethod
    def backward(ctx, gradient_of_theirs: Tensor):
        return Swap.apply(gradient_of_theirs, ctx.peer), None


def make_convolutions(channels: tuple[int, ...] = CHANNELS) -> nn.ModuleList:
    """One convolution for each pair of neighbours, the same in every process."""
    torch.manual_seed(0)
    made = [nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise(channels)]
    for convolution in made:
        nn.init.kaiming_normal_(convolution.weight)  # or the gradients are tiny
    return nn.ModuleList(made)


def scores_of_images(convolutions: nn.ModuleList, images: Tensor) -> Tensor:
    """The unsplit convolutions: (batch, 1, height, width) in, (batch, 10) out."""
    *inner, last = convolutions
    maps = images
    for convolution in inner:
        maps = F.relu(convolution(maps))
    return last(maps).mean((2, 3))


# By space: this rank has its rows of the images, and all weights --------------------


def with_halo(rows: Tensor, swap=Swap.apply) -> Tensor:
    """For convolutions cut by space: half of an image's rows, and one more each way.

    Where the two halves meet it is the neighbour's row, at the border it is zeros.
    """
    rank = dist.get_rank()
    edge = rows[:, :, -1:] if rank == 0 else rows[:, :, :1]
    halo = swap(edge, 1 - rank)
    zeros = torch.zeros_like(halo)
    above, below = (zeros, halo) if rank == 0 else (halo, zeros)
    return torch.cat([above, rows, below], dim=2)


def _convolve_with_halo(convolution: nn.Conv2d, rows: Tensor) -> Tensor:
    """`rows` have their halo already, so zeros are added at the left and right only."""
    weight, bias = convolution.weight, convolution.bias
    return F.conv2d(rows, weight, bias, padding=(0, 1))


def scores_by_space(
    convolutions: nn.ModuleList, rows: Tensor, pixels: int, halo=with_halo
) -> Tensor:
    """Convolutions cut by space: the scores of whole images from this rank's `rows`."""
    *inner, last = convolutions
    rows = halo(rows)
    for convolution in inner:
        rows = F.relu(halo(_convolve_with_halo(convolution, rows)))
    sums = _convolve_with_halo(last, rows).sum((2, 3))
    return (sums + Swap.apply(sums, 1 - dist.get_rank())) / pixels


# By channels: this rank has the whole image, and half of each layer's filters --------


def channels_of_both_ranks(half: Tensor) -> Tensor:
    """Of convolutions cut by channels: all of them, the first half from rank 0."""
    halves = [half, Swap.apply(half, 1 - dist.get_rank())]
    return torch.cat(halves if dist.get_rank() == 0 else halves[::-1], dim=1)


def scores_by_channels(half_convolutions: nn.ModuleList, images: Tensor) -> Tensor:
    """Convolutions cut by channels: each needs all of them, and makes half."""
    *inner, last = half_convolutions
    maps = images
    for convolution in inner:
        maps = F.relu(channels_of_both_ranks(convolution(maps)))
    return channels_of_both_ranks(last(maps).mean((2, 3)))


def half_of_channels(convolution: nn.Conv2d) -> nn.Conv2d:
    """Of a convolution cut by channels: this rank's filters, as one of their own."""
    half = nn.Conv2d(
        convolution.in_channels, convolution.out_channels // 2, 3, padding=1
    )
    for mine, whole in zip(half.parameters(), convolution.parameters(), strict=True):
        mine.data = whole.detach().chunk(2)[dist.get_rank()].clone()
    return half


# By layers: rank 0 has the convolutions before the cut, rank 1 those behind it ------


def scores_by_layers(part: nn.ModuleList, images: Tensor) -> Tensor:
    """Convolutions cut by layers: scores on rank 1, on rank 0 a zero for `backward`."""
    if dist.get_rank() == 0:
        maps = images
        for convolution in part:
            maps = F.relu(convolution(maps))
        return SendForward.apply(maps, 1)
    crossing = (len(images), part[0].in_channels, *images.shape[2:])
    return scores_of_images(part, receive_across_cut(crossing, 0))


def bytes_of_splits(
    batch: int, channels: tuple[int, ...], height: int, width: int
) -> dict[str, int]:
    """What a rank sends for each cut of the convolutions, predicted; 4 bytes a number.

    By layers the cut is where the fewest channels cross it. By space the image's own
    halo comes without a way back, and the gradients of all weights are swapped.
    """
    inner, pairs = channels[1:-1], pairwise(channels)
    weights = sum(9 * a * b + b for a, b in pairs)
    rows = channels[0] + 2 * sum(inner)
    numbers = {
        "layers": batch * min(inner) * height * width,
        "channels": batch * (sum(inner) * height * width + channels[-1]),
        "space": batch * (rows * width + 2 * channels[-1]) + weights,
    }
    return {way: 4 * count for way, count in numbers.items()}
