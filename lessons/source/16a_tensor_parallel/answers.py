"""Wrong answers to the exercises of lesson 16a."""

import torch
import torch.distributed as dist
from torch.autograd import Function
from torch.nn import functional as F

from demos.tensor_parallel.parts.conjugates import (
    all_reduced,
    copy_to_ranks,
    sum_over_ranks,
)
from lessons.source.sample_answers import right, wrong

# 16a-row ------------------------------------------------------------------------------


def forward_by_rows(x_part, rows, bias):
    return all_reduced(x_part @ rows) + bias


def backward_by_rows(gradient, x_part, rows):
    return gradient @ rows.T, x_part.T @ gradient, gradient.sum(0)


def forward_with_bias_on_every_rank(x_part, rows, bias):
    return all_reduced(x_part @ rows + bias)


def forward_without_sum(x_part, rows, bias):
    return x_part @ rows + bias


def forward_with_mean(x_part, rows, bias):
    return all_reduced(x_part @ rows) / dist.get_world_size() + bias


def forward_that_sums_the_inputs(x_part, rows, bias):
    dist.all_reduce(x_part)
    return x_part @ rows + bias


def forward_by_gathering(x_part, rows, bias):
    summand = x_part @ rows
    summands = [torch.empty_like(summand) for _ in range(dist.get_world_size())]
    dist.all_gather(summands, summand)
    return sum(summands) + bias


def forward_without_bias(x_part, rows, bias):
    return all_reduced(x_part @ rows)


def forward_without_waiting(x_part, rows, bias):
    summand = x_part @ rows
    dist.all_reduce(summand, async_op=True)
    return summand + bias


def forward_in_32_bits(x_part, rows, bias):
    return all_reduced(x_part.float() @ rows.float()) + bias.float()


def backward_with_sum(gradient, x_part, rows):
    return all_reduced(gradient) @ rows.T, x_part.T @ gradient, gradient.sum(0)


def backward_with_mean(gradient, x_part, rows):
    gradient = gradient / dist.get_world_size()
    return gradient @ rows.T, x_part.T @ gradient, gradient.sum(0)


def backward_with_bias_per_sample(gradient, x_part, rows):
    return gradient @ rows.T, x_part.T @ gradient, gradient


def backward_with_mean_bias(gradient, x_part, rows):
    return gradient @ rows.T, x_part.T @ gradient, gradient.mean(0)


def backward_in_torchs_layout(gradient, x_part, rows):
    return gradient @ rows.T, gradient.T @ x_part, gradient.sum(0)


def backward_without_bias(gradient, x_part, rows):
    return gradient @ rows.T, x_part.T @ gradient


def forward_with_bias_on_rank_0(x_part, rows, bias):
    """Only one of the summands contains the bias."""
    summand = torch.einsum("si,io->so", x_part, rows)
    if dist.get_rank() == 0:
        summand = summand + bias
    dist.all_reduce(summand)
    return summand


def backward_by_autograd(gradient, x_part, rows):
    x_part, rows = (t.clone().requires_grad_() for t in (x_part, rows))
    bias = torch.zeros_like(gradient[:1].sum(0), requires_grad=True)
    return torch.autograd.grad(x_part @ rows + bias, (x_part, rows, bias), gradient)


def forward_with_shared_bias(x_part, rows, bias):
    """Each rank adds its part of the bias: together they are the bias, once."""
    summand = torch.addmm(bias / dist.get_world_size(), x_part, rows)
    dist.all_reduce(summand)
    return summand


def backward_by_sums(gradient, x_part, rows):
    of_rows = (x_part[:, :, None] * gradient[:, None, :]).sum(0)
    return [(gradient[:, None, :] * rows).sum(2), of_rows, gradient.sum(dim=0)]


# 16a-conjugates -----------------------------------------------------------------------


def make_function(forward, backward) -> type[Function]:
    """An autograd function without a context."""

    class Made(Function):
        @staticmethod
        def forward(ctx, x):
            return forward(x)

        @staticmethod
        def backward(ctx, gradient):
            return backward(gradient)

    return Made


def same(x):
    return x.view_as(x)


def summed_in_place(x):
    dist.all_reduce(x)
    return x


def summed_copy_of_any_layout(x):
    total = x.clone()
    dist.all_reduce(total)
    return total


def mean_over_ranks(x):
    return all_reduced(x) / dist.get_world_size()


def sum_without_waiting(x):
    total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, async_op=True)
    return total


ROOM: dict[tuple, torch.Tensor] = {}


def sum_in_kept_room(x):
    key = x.shape, x.dtype
    if key not in ROOM:
        ROOM[key] = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    ROOM[key].copy_(x.detach())
    dist.all_reduce(ROOM[key])
    return ROOM[key].detach()


def sum_at_rank_0(x):
    total = x.clone(memory_format=torch.contiguous_format)
    dist.reduce(total, 0)
    return total


RightCopy, RightSum = make_function(same, all_reduced), make_function(all_reduced, same)


class LibrarysSum(Function):
    """torch.distributed.nn's all_reduce: its backward is an all-reduce as well."""

    @staticmethod
    def forward(ctx, x):
        return all_reduced(x)

    @staticmethod
    def backward(ctx, gradient):
        return all_reduced(gradient)


class ReturnsTheInput(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.contiguous().clone()
        dist.all_reduce(total, op=dist.ReduceOp.SUM)
        return total


class SumWithContext(Function):
    @staticmethod
    def forward(x):
        total = torch.zeros(x.shape, dtype=x.dtype, device=x.device) + x
        dist.all_reduce(total)
        return total

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.shape = inputs[0].shape

    @staticmethod
    def backward(ctx, gradient):
        return gradient.reshape(ctx.shape)


class CopyThatWaits(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        if dist.get_world_size() == 1:
            return gradient
        total = torch.empty(
            gradient.shape, dtype=gradient.dtype, device=gradient.device
        )
        dist.all_reduce(total.copy_(gradient), async_op=True).wait()
        return total


# 16a-one-too-many ---------------------------------------------------------------------


def branch_products(x, first, second):
    (A1, B1), (A2, B2) = first, second
    return F.gelu(x @ A1) @ B1, torch.tanh(x @ A2) @ B2


@wrong("16a-one-too-many", advice="2 calls on rank 0")
def branches_as_they_were(x, first, second):
    one, _ = branch_products(copy_to_ranks(x), first, second)
    _, two = branch_products(copy_to_ranks(x), first, second)
    return x + sum_over_ranks(one) + sum_over_ranks(two)


@wrong(
    "16a-one-too-many",
    advice="past all of them",
    note="The way past the neurons counts N times.",
)
def branches_past_a_copied_x(x, first, second):
    x = copy_to_ranks(x)
    return x + sum_over_ranks(sum(branch_products(x, first, second)))


@wrong("16a-one-too-many", advice="past all of them")
def branches_with_one_copy_less(x, first, second):
    (A1, B1), (A2, B2) = first, second
    one = F.gelu(copy_to_ranks(x) @ A1) @ B1
    return x + sum_over_ranks(one + torch.tanh(x @ A2) @ B2)


@wrong("16a-one-too-many", advice="each rank adds to the sum")
def branches_with_one_sum_less(x, first, second):
    one, two = branch_products(copy_to_ranks(x), first, second)
    return x + sum_over_ranks(one) + two


@wrong("16a-one-too-many", advice="what is added only once")
def branches_with_x_in_the_sum(x, first, second):
    return sum_over_ranks(x + sum(branch_products(copy_to_ranks(x), first, second)))


@wrong("16a-one-too-many", advice="through this rank's neurons")
def branches_without_a_copy(x, first, second):
    return x + sum_over_ranks(sum(branch_products(x, first, second)))


@wrong("16a-one-too-many", advice="forward, 2 calls")
def branches_with_one_copy_and_two_sums(x, first, second):
    one, two = branch_products(copy_to_ranks(x), first, second)
    return x + sum_over_ranks(one) + sum_over_ranks(two)


@wrong("16a-one-too-many", advice="backward, 2 calls")
def branches_with_two_copies_and_one_sum(x, first, second):
    one, _ = branch_products(copy_to_ranks(x), first, second)
    _, two = branch_products(copy_to_ranks(x), first, second)
    return x + sum_over_ranks(one + two)


@wrong("16a-one-too-many", advice="what is added only once")
def branches_without_x(x, first, second):
    return sum_over_ranks(sum(branch_products(copy_to_ranks(x), first, second)))


@wrong("16a-one-too-many", advice="gradient")
def branches_by_plain_all_reduce(x, first, second):
    total = sum(branch_products(copy_to_ranks(x), first, second)).detach()
    dist.all_reduce(total)
    return x + total


@wrong(
    "16a-one-too-many",
    advice="gone back through dist.all_reduce",
    note="Right in torch 2.13, with a warning that it will not stay so.",
)
def branches_by_tracked_all_reduce(x, first, second):
    total = sum(branch_products(copy_to_ranks(x), first, second))
    dist.all_reduce(total)
    return x + total


@wrong("16a-one-too-many", advice="the output")
def branches_with_one_nonlinearity(x, first, second):
    """The branches joined, as if both used GELU."""
    A, B = torch.cat([first[0], second[0]], 1), torch.cat([first[1], second[1]])
    return x + sum_over_ranks(F.gelu(copy_to_ranks(x) @ A) @ B)


JOINED: dict[tuple, tuple] = {}


@wrong("16a-one-too-many", advice="the output")
def branches_joined_once(x, first, second):
    """The matrices of the first call, for all later ones of the same shapes."""
    (A1, B1), (A2, B2) = first, second
    key = A1.shape, A2.shape
    if key not in JOINED:
        JOINED[key] = torch.cat([A1, A2], 1), torch.cat([B1, B2])
    A, B = JOINED[key]
    one, two = (copy_to_ranks(x) @ A).split([A1.shape[1], A2.shape[1]], 1)
    return x + sum_over_ranks(torch.cat([F.gelu(one), torch.tanh(two)], 1) @ B)


@right("16a-one-too-many")
def branches_side_by_side(x, first, second):
    """One product for both branches, as libraries do it."""
    (A1, B1), (A2, B2) = first, second
    hidden = copy_to_ranks(x) @ torch.cat([A1, A2], 1)
    one, two = hidden.split([A1.shape[1], A2.shape[1]], 1)
    both = torch.cat([F.gelu(one), torch.tanh(two)], 1) @ torch.cat([B1, B2])
    return sum_over_ranks(both) + x


@right("16a-one-too-many")
def branches_with_own_functions(x, first, second):
    ranks = dist.get_world_size()
    copied = RightCopy.apply(x)
    share = sum(branch_products(copied, first, second)) + copied / ranks
    return RightSum.apply(share)  # x, in N equal parts


wrong(
    "16a-row",
    advice="how often the bias is counted",
    note="The most common one. With one rank it is right.",
    name="bias_on_every_rank",
)((forward_with_bias_on_every_rank, backward_by_rows))
wrong("16a-row", advice="only a summand", name="no_sum")(
    (forward_without_sum, backward_by_rows)
)
wrong("16a-row", advice="how often the bias", name="mean")(
    (forward_with_mean, backward_by_rows)
)
wrong(
    "16a-row",
    advice="in x_part than before the call|instead of one all_reduce",
    name="sums_inputs",
)((forward_that_sums_the_inputs, backward_by_rows))
wrong("16a-row", advice="all_gather instead", name="gathers")(
    (forward_by_gathering, backward_by_rows)
)
wrong("16a-row", advice="when its sum is there", name="not_awaited")(
    (forward_without_waiting, backward_by_rows)
)
wrong("16a-row", advice="the bias", name="no_bias")(
    (forward_without_bias, backward_by_rows)
)
wrong("16a-row", advice="another type", name="32_bits")(
    (forward_in_32_bits, backward_by_rows)
)
wrong(
    "16a-row",
    advice="all_reduce instead of nothing",
    note="To be safe. The gradient becomes N times too large.",
    name="all_reduce_backward",
)((forward_by_rows, backward_with_sum))
wrong("16a-row", advice="number of ranks", name="mean_backward")(
    (forward_by_rows, backward_with_mean)
)
wrong("16a-row", advice="has shape|how many samples", name="bias_per_sample")(
    (forward_by_rows, backward_with_bias_per_sample)
)
wrong("16a-row", advice="how many samples", name="mean_bias")(
    (forward_by_rows, backward_with_mean_bias)
)
wrong(
    "16a-row",
    advice="what of it a rank holds",
    note="nn.Linear stores the transpose.",
    name="torchs_layout",
)((forward_by_rows, backward_in_torchs_layout))
wrong("16a-row", advice="three", name="two_gradients")(
    (forward_by_rows, backward_without_bias)
)
wrong(
    "16a-conjugates",
    advice="backward, rank 0 sent all_reduce instead of nothing",
    note="As torch.distributed.nn.functional.all_reduce does.",
    name="all_reduce_both_ways",
)((RightCopy, LibrarysSum))
wrong("16a-conjugates", advice="forward, rank 0 sent all_reduce", name="swapped")(
    (RightSum, RightCopy)
)
wrong(
    "16a-conjugates",
    advice="backward, rank 0 sent nothing instead of one all_reduce",
    name="copy_without_sum",
)((make_function(same, same), RightSum))
wrong(
    "16a-conjugates",
    advice="other numbers in x|view|dirty|in-place|contiguous",
    name="sum_in_place",
)((RightCopy, make_function(summed_in_place, same)))
wrong(
    "16a-conjugates",
    advice="other numbers in gradient",
    note="Another branch may use the same gradient.",
    name="gradient_in_place",
)((make_function(same, summed_in_place), RightSum))
wrong(
    "16a-conjugates",
    advice="at the same place in memory",
    note="clone() keeps the order in memory, which may differ between ranks.",
    name="keeps_the_layout",
)((make_function(same, summed_copy_of_any_layout), RightSum))
wrong("16a-conjugates", advice="by how many paths", name="mean_backward")(
    (make_function(same, mean_over_ranks), RightSum)
)
wrong("16a-conjugates", advice="the sum over the ranks", name="mean_forward")(
    (RightCopy, make_function(mean_over_ranks, same))
)
wrong("16a-conjugates", advice="one of its summands", name="sum_divided_backward")(
    (
        RightCopy,
        make_function(all_reduced, lambda g: g / dist.get_world_size()),
    )
)
wrong("16a-conjugates", advice="when its sum is there", name="not_awaited")(
    (make_function(same, sum_without_waiting), RightSum)
)
wrong(
    "16a-conjugates",
    advice="other numbers in an earlier result",
    note="The next block's sum would overwrite this one's.",
    name="kept_room",
)((RightCopy, make_function(sum_in_kept_room, same)))
wrong("16a-conjugates", advice="reduce instead of one all_reduce", name="reduce")(
    (RightCopy, make_function(sum_at_rank_0, same))
)
wrong(
    "16a-conjugates",
    advice="the gradient: NoneType",
    note="Where nothing is sent, the gradient still goes on.",
    name="no_gradient",
)((RightCopy, make_function(all_reduced, lambda gradient: None)))
wrong("16a-conjugates", advice="an autograd function is: a class", name="no_class")(
    (same, all_reduced)
)
right("16a-row", name="rank_0_and_autograd")(
    (forward_with_bias_on_rank_0, backward_by_autograd)
)
right("16a-row", name="shared_bias_and_sums")(
    (forward_with_shared_bias, backward_by_sums)
)
right("16a-conjugates", name="with_setup_context")((ReturnsTheInput, SumWithContext))
right("16a-conjugates", name="waits")((CopyThatWaits, RightSum))
