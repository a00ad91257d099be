"""Answers to the exercises of lesson 16a that people give, right and wrong."""

import torch
import torch.distributed as dist
from torch.autograd import Function
from torch.nn import functional as F

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.tensor_parallel.conjugates import (
    all_reduced,
    copy_to_ranks,
    sum_over_ranks,
)

# 16a-row ------------------------------------------------------------------------------


def with_forward(row_forward):
    return row_forward, backward_by_rows


def with_backward(row_backward):
    return forward_by_rows, row_backward


def forward_by_rows(x_part, rows, bias):
    return all_reduced(x_part @ rows) + bias


def backward_by_rows(gradient, x_part, rows):
    return gradient @ rows.T, x_part.T @ gradient, gradient.sum(0)


@wrong(
    "16a-row",
    advice="and the bias: once",
    note="The most common one. With one rank it is right.",
    given=with_forward,
)
def bias_on_every_rank(x_part, rows, bias):
    return all_reduced(x_part @ rows + bias)


@wrong(
    "16a-row",
    advice="only a summand",
    note="They take the summand for the output: its shape is right.",
    given=with_forward,
)
def no_sum(x_part, rows, bias):
    return x_part @ rows + bias


@wrong(
    "16a-row",
    advice="1/N",
    note="As gradients are averaged in data parallel training.",
    given=with_forward,
)
def mean(x_part, rows, bias):
    return all_reduced(x_part @ rows) / dist.get_world_size() + bias


@wrong(
    "16a-row",
    advice="in x_part than before the call",
    note="They add up the inputs: but these are different columns of x.",
    given=with_forward,
)
def sums_inputs(x_part, rows, bias):
    dist.all_reduce(x_part)
    return x_part @ rows + bias


@wrong(
    "16a-row",
    advice="all_reduce instead of nothing",
    note="To be safe. The gradient becomes N times too large.",
    given=with_backward,
)
def all_reduce_backward(gradient, x_part, rows):
    return all_reduced(gradient) @ rows.T, x_part.T @ gradient, gradient.sum(0)


@wrong(
    "16a-row",
    advice="has shape",
    note="The bias is used once for each sample: its gradients are added up.",
    given=with_backward,
)
def bias_per_sample(gradient, x_part, rows):
    return gradient @ rows.T, x_part.T @ gradient, gradient


def forward_with_bias_on_rank_0(x_part, rows, bias):
    summand = torch.einsum("si,io->so", x_part, rows)
    if dist.get_rank() == 0:
        summand = summand + bias
    dist.all_reduce(summand)
    return summand


@right("16a-row", given=lambda backward: (forward_with_bias_on_rank_0, backward))
def by_autograd_and_bias_on_rank_0(gradient, x_part, rows):
    x_part, rows = (t.clone().requires_grad_() for t in (x_part, rows))
    bias = torch.zeros_like(gradient[:1].sum(0), requires_grad=True)
    return torch.autograd.grad(x_part @ rows + bias, (x_part, rows, bias), gradient)


@right("16a-row", given=with_forward)
def shared_bias(x_part, rows, bias):
    """Each rank adds its part of the bias: together they are the bias, once."""
    summand = torch.addmm(bias / dist.get_world_size(), x_part, rows)
    dist.all_reduce(summand)
    return summand


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


Copy, Sum = make_function(same, all_reduced), make_function(all_reduced, same)


def as_sum_forward(forward):
    return Copy, make_function(forward, same)


def as_copy_backward(backward):
    return make_function(same, backward), Sum


@wrong(
    "16a-conjugates",
    advice="backward, rank 0 sent all_reduce instead of nothing",
    note="As torch.distributed.nn.functional.all_reduce does.",
    given=lambda function: (Copy, make_function(all_reduced, function)),
)
def all_reduce_both_ways(gradient):
    return all_reduced(gradient)


wrong(
    "16a-conjugates",
    advice="forward, rank 0 sent all_reduce",
    note="They have the two directions of the table the wrong way round.",
    name="swapped",
)((Sum, Copy))


@wrong(
    "16a-conjugates",
    advice="backward, rank 0 sent nothing instead of one all_reduce",
    note="A copy costs nothing forward, so they believe that it costs nothing back.",
    given=as_copy_backward,
)
def copy_without_sum(gradient):
    return gradient


@wrong(
    "16a-conjugates",
    advice="other numbers in x|view|dirty|in-place",
    note="`dist.all_reduce` works in place: the layers in front still need x.",
    given=as_sum_forward,
)
def sum_in_place(x):
    dist.all_reduce(x)
    return x


@wrong(
    "16a-conjugates",
    advice="other numbers in gradient",
    note="Another branch may use the same gradient.",
    given=as_copy_backward,
)
def gradient_in_place(gradient):
    dist.all_reduce(gradient)
    return gradient


@wrong(
    "16a-conjugates",
    advice="by how many paths",
    note="The habit of data parallel training: the mean of the gradients.",
    given=as_copy_backward,
)
def mean_backward_of_the_copy(gradient):
    return all_reduced(gradient) / dist.get_world_size()


@right("16a-conjugates", given=lambda function: (Copy, function))
class WithSetUpContext(Function):
    @staticmethod
    def forward(x):
        total = torch.zeros_like(x) + x
        dist.all_reduce(total)
        return total

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.shape = inputs[0].shape

    @staticmethod
    def backward(ctx, gradient):
        return gradient.reshape(ctx.shape)


@right("16a-conjugates", given=as_copy_backward)
def waits(gradient):
    total = torch.empty_like(gradient, memory_format=torch.contiguous_format)
    dist.all_reduce(total.copy_(gradient), async_op=True).wait()
    return total


# 16a-one-too-many ---------------------------------------------------------------------


def branch_products(x, first, second):
    (A1, B1), (A2, B2) = first, second
    return F.gelu(x @ A1) @ B1, torch.tanh(x @ A2) @ B2


@wrong(
    "16a-one-too-many",
    advice="2 calls on rank 0",
    note="Nothing has changed: they have split lines, not merged sums.",
)
def as_they_were(x, first, second):
    one, _ = branch_products(copy_to_ranks(x), first, second)
    _, two = branch_products(copy_to_ranks(x), first, second)
    return x + sum_over_ranks(one) + sum_over_ranks(two)


@wrong(
    "16a-one-too-many",
    advice="past all of them",
    note="The way past the neurons counts N times.",
)
def past_a_copied_x(x, first, second):
    x = copy_to_ranks(x)
    return x + sum_over_ranks(sum(branch_products(x, first, second)))


@wrong(
    "16a-one-too-many",
    advice="past all of them",
    note="They save an all-reduce by dropping a copy: then the gradient of x through "
    "the second branch lacks the other ranks' neurons.",
)
def one_copy_less(x, first, second):
    (A1, B1), (A2, B2) = first, second
    one = F.gelu(copy_to_ranks(x) @ A1) @ B1
    return x + sum_over_ranks(one + torch.tanh(x @ A2) @ B2)


@wrong(
    "16a-one-too-many",
    advice="each rank adds to the sum",
    note="They save an all-reduce by dropping a sum: the output differs on each rank.",
)
def one_sum_less(x, first, second):
    one, two = branch_products(copy_to_ranks(x), first, second)
    return x + sum_over_ranks(one) + two


@wrong(
    "16a-one-too-many",
    advice="what is added only once",
    note="All three summands in one sum: x counts N times.",
)
def x_in_the_sum(x, first, second):
    return sum_over_ranks(x + sum(branch_products(copy_to_ranks(x), first, second)))


@wrong(
    "16a-one-too-many",
    advice="backward, 2 calls",
    note="The sums are merged, and the copies forgotten.",
)
def two_copies_and_one_sum(x, first, second):
    one, _ = branch_products(copy_to_ranks(x), first, second)
    _, two = branch_products(copy_to_ranks(x), first, second)
    return x + sum_over_ranks(one + two)


@right("16a-one-too-many")
def side_by_side(x, first, second):
    """One product for both branches, as libraries do it."""
    (A1, B1), (A2, B2) = first, second
    hidden = copy_to_ranks(x) @ torch.cat([A1, A2], 1)
    one, two = hidden.split([A1.shape[1], A2.shape[1]], 1)
    both = torch.cat([F.gelu(one), torch.tanh(two)], 1) @ torch.cat([B1, B2])
    return sum_over_ranks(both) + x


@right("16a-one-too-many")
def with_x_in_equal_parts(x, first, second):
    copied = Copy.apply(x)
    share = sum(branch_products(copied, first, second))
    return Sum.apply(share + copied / dist.get_world_size())
