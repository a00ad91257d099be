"""Answers to the exercises of lesson 15a that people give, and that are not right."""

import math

import torch
import torch.distributed as dist
from torch import nn

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.pipeline.schedule_rules import bubble, timetable
from parallel_by_hand.pipeline.schedules import gpipe

# 15a-microbatches


@wrong(
    "15a-microbatches",
    advice="which numbers divide",
    note="Solves for m and rounds up: right for the bubble, but 64 samples do "
    "not make 12 equal parts.",
)
def formula_alone(stages, batch, waste):
    return max(1, math.ceil((stages - 1) * (1 - waste) / waste)) if waste else None


@wrong(
    "15a-microbatches",
    advice="does your answer try it",
    note="(p - 1)/m, as in Megatron-LM's papers: another definition.",
)
def waste_beside_the_work(stages, batch, waste):
    fits = (m for m in range(1, batch + 1) if batch % m == 0)
    return next((m for m in fits if (stages - 1) / m <= waste), None)


@wrong(
    "15a-microbatches",
    advice="the bubble of a single stage: is it at most 0",
    note="`<` where the text says at most: a single stage wastes 0, and 0 is allowed.",
)
def strictly_less(stages, batch, waste):
    fits = (m for m in range(1, batch + 1) if batch % m == 0)
    return next((m for m in fits if (stages - 1) / (m + stages - 1) < waste), None)


@wrong(
    "15a-microbatches",
    advice="does your answer try it|is exactly",
    note="As many as possible instead of as few as are enough.",
)
def one_sample_each(stages, batch, waste):
    return batch if (stages - 1) / (batch + stages - 1) <= waste else None


@wrong(
    "15a-microbatches",
    advice="what to return when even with",
    note="Forgets that it may be impossible.",
)
def always_finds_one(stages, batch, waste):
    fits = [m for m in range(1, batch + 1) if batch % m == 0]
    return next((m for m in fits if (stages - 1) / (m + stages - 1) <= waste), batch)


@wrong(
    "15a-microbatches",
    advice="or how many samples in each",
    note="The size of a micro-batch instead of their number.",
)
def samples_in_each(stages, batch, waste):
    m = fewest_by_timetable(stages, batch, waste)
    return m and batch // m


@right("15a-microbatches")
def by_the_busy_share(stages, batch, waste):
    fits = (m for m in range(1, batch + 1) if batch % m == 0)
    return next((m for m in fits if m / (m + stages - 1) >= 1 - waste), None)


@right("15a-microbatches")
def fewest_by_timetable(stages, batch, waste):
    """Draws every picture, and measures it."""
    for m in range(1, batch + 1):
        if batch % m == 0 and bubble(timetable(gpipe(stages, m))) <= waste + 1e-12:
            return m
    return None


# 15a-gpipe


def _forward(
    stage,
    inputs,
    targets,
    share=1.0,
    arrives=True,
    needs_grad=True,
    into=torch.empty_like,
):
    """The first loop, with the chosen mistakes: what it has kept."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    kept = []
    for x, target in zip(inputs, targets, strict=True):
        if rank > 0:
            arrived = into(x)
            dist.recv(arrived, rank - 1)
            x = (arrived if arrives else x.clone()).requires_grad_(needs_grad)
        output = stage(x)
        if rank < last:
            dist.send(output.detach(), rank + 1)
        else:
            output = nn.functional.mse_loss(output, target) * share
        kept.append((x, output))
    return kept


def _backward(kept, gradient_of=None):
    """The second loop; `gradient_of(output)` instead of the one that arrives."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    for x, output in kept:
        gradient = None
        if rank < last:
            gradient = torch.empty_like(output)
            dist.recv(gradient, rank + 1)
            gradient = gradient_of(output) if gradient_of else gradient
        output.backward(gradient)
        if rank > 0:
            dist.send(x.grad, rank - 1)


@wrong(
    "15a-gpipe",
    advice="3 times.*one of 3 means",
    note="Each micro-batch's mean loss counts in full: m times the gradient.",
)
def gpipe_adds_up_means(stage, inputs, targets):
    _backward(_forward(stage, inputs, targets))


@wrong(
    "15a-gpipe",
    advice="what each rank receives and sends",
    note="What arrives is no leaf that collects a gradient: there is none to send.",
)
def gpipe_without_requires_grad(stage, inputs, targets):
    _backward(_forward(stage, inputs, targets, 1 / len(inputs), needs_grad=False))


@wrong(
    "15a-gpipe",
    advice="what enters the stage",
    note="Every rank has `inputs`, so they use them: the message is thrown away.",
)
def gpipe_reads_inputs_everywhere(stage, inputs, targets):
    _backward(_forward(stage, inputs, targets, 1 / len(inputs), arrives=False))


@wrong(
    "15a-gpipe",
    advice="is it still there on the way back",
    note="One buffer for all that arrives: each micro-batch overwrites the one before.",
)
def gpipe_into_one_buffer(stage, inputs, targets):
    buffer = torch.empty_like(inputs[0])
    share = 1 / len(inputs)
    _backward(_forward(stage, inputs, targets, share, into=lambda _: buffer))


@wrong(
    "15a-gpipe",
    advice="which tensor's gradient, and of which micro-batch",
    note="The last one that went forward comes back first, as on a stack; but the next "
    "rank sends the first one first.",
)
def gpipe_back_in_reverse_on_rank_0(stage, inputs, targets):
    kept = _forward(stage, inputs, targets, 1 / len(inputs))
    _backward(kept[:: -1 if dist.get_rank() == 0 else 1])


@wrong(
    "15a-gpipe",
    advice="which tensor's gradient, and of which micro-batch",
    note="`output.sum().backward()`: it runs, and ignores what has arrived.",
)
def gpipe_begins_with_ones(stage, inputs, targets):
    _backward(_forward(stage, inputs, targets, 1 / len(inputs)), torch.ones_like)


@wrong(
    "15a-gpipe",
    advice="do both ranks have them in the same order",
    note="Each micro-batch goes forward and back at once, but only on the last rank: "
    "it sends a gradient while the rank before still sends forwards.",
    state="HUNG",
)
def gpipe_back_at_once_on_the_last_rank(stage, inputs, targets):
    if dist.get_rank() < dist.get_world_size() - 1:
        return _backward(_forward(stage, inputs, targets))
    for x, target in zip(inputs, targets, strict=True):
        _backward(_forward(stage, [x], [target], 1 / len(inputs)))


@right("15a-gpipe")
def gpipe_by_grad(stage, inputs, targets):
    """With torch.autograd.grad, and the loss of the whole batch at the end."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    kept = []
    for x in inputs:
        if rank > 0:
            x = torch.zeros_like(x)
            dist.recv(x, rank - 1)
        x.requires_grad_()
        kept.append((x, stage(x)))
        if rank < last:
            dist.send(kept[-1][1].detach().clone(), rank + 1)
    if rank == last:
        outputs = torch.cat([output for _, output in kept])
        nn.functional.mse_loss(outputs, torch.cat(targets)).backward()
    for x, output in kept:
        if rank < last:
            gradient = torch.zeros_like(output)
            dist.recv(gradient, rank + 1)
            output.backward(gradient)
        if rank > 0:
            dist.send(x.grad, rank - 1)


@wrong(
    "15a-gpipe",
    advice="FBFBFB.*only then the first one back",
    note="The naive schedule has the same gradients, and one rank works at a time.",
)
def gpipe_one_micro_batch_at_a_time(stage, inputs, targets):
    for x, target in zip(inputs, targets, strict=True):
        _backward(_forward(stage, [x], [target], 1 / len(inputs)))


@right("15a-gpipe")
def gpipe_last_in_first_out(stage, inputs, targets):
    """Back in the opposite order, on all ranks."""
    _backward(_forward(stage, inputs, targets, 1 / len(inputs))[::-1])
