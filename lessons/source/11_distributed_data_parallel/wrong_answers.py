"""Wrong answers to the exercises of lesson 11: mistakes that published courses made."""

import copy
from contextlib import contextmanager, nullcontext

import torch
import torch.distributed as dist
from torch.nn import functional as F

from demos.ddp.ddp_from_scratch import fill_buckets
from lessons.source.sample_answers import Wrong

# 11-shard -----------------------------------------------------------------------------


def _deck(samples, seed):
    return torch.randperm(samples, generator=torch.Generator().manual_seed(seed))


def shard_all(samples, rank, world_size, epoch):
    return _deck(samples, epoch).tolist()


def shard_own_deck(samples, rank, world_size, epoch):
    return _deck(samples, 1000 * epoch + rank)[rank::world_size].tolist()


def shard_without_the_remainder(samples, rank, world_size, epoch):
    size = samples // world_size
    return _deck(samples, epoch)[rank * size : (rank + 1) * size].tolist()


def shard_rounded_up(samples, rank, world_size, epoch):
    size = -(-samples // world_size)
    return _deck(samples, epoch)[rank * size : (rank + 1) * size].tolist()


def shard_padded(samples, rank, world_size, epoch):
    deck = _deck(samples, epoch).tolist()
    deck += deck[: -samples % world_size]
    return deck[rank::world_size]


def shard_without_epoch(samples, rank, world_size, epoch):
    return _deck(samples, 0)[rank::world_size].tolist()


def shard_dealt_first(samples, rank, world_size, epoch):
    mine = torch.arange(samples)[rank::world_size]
    return mine[_deck(len(mine), epoch)].tolist()


def shard_without_a_seed(samples, rank, world_size, epoch):
    return torch.randperm(samples)[rank::world_size].tolist()


def shard_turned(samples, rank, world_size, epoch):
    return [(i + epoch) % samples for i in range(rank, samples, world_size)]


# 11-replicas --------------------------------------------------------------------------


def _replica_step(replicas, shards, lr, combine):
    for replica, (images, labels) in zip(replicas, shards, strict=True):
        F.cross_entropy(replica(images), labels).backward()
    for parameters in zip(*(r.parameters() for r in replicas), strict=True):
        gradient = combine([p.grad for p in parameters])
        for parameter in parameters:
            parameter.data -= lr * gradient
            parameter.grad = None
    return replicas


def _mean(grads):
    return sum(grads) / len(grads)


def replicas_one_storage(model, shards, lr):
    return _replica_step([copy.deepcopy(model)] * len(shards), shards, lr, _mean)


def replicas_shallow_copies(model, shards, lr):
    return _replica_step([copy.copy(model) for _ in shards], shards, lr, _mean)


def replicas_of_the_given_model(model, shards, lr):
    copies = [copy.deepcopy(model) for _ in shards[1:]]
    return _replica_step([model, *copies], shards, lr, _mean)


def replicas_sum(model, shards, lr):
    return _replica_step([copy.deepcopy(model) for _ in shards], shards, lr, sum)


def replicas_mean_of_means(model, shards, lr):
    return _replica_step([copy.deepcopy(model) for _ in shards], shards, lr, _mean)


def replicas_each_its_own_step(model, shards, lr):
    replicas = [copy.deepcopy(model) for _ in shards]
    for replica, shard in zip(replicas, shards, strict=True):
        _replica_step([replica], [shard], lr, _mean)
    return replicas


def replicas_copied_afterwards(model, shards, lr):
    images, labels = (torch.cat(parts) for parts in zip(*shards, strict=True))
    _replica_step([model], [(images, labels)], lr, _mean)
    return [copy.deepcopy(model) for _ in shards]


def replicas_no_step(model, shards, lr):
    return [copy.deepcopy(model) for _ in shards]


def replicas_nothing(model, shards, lr):
    pass


# 11-buckets ---------------------------------------------------------------------------


def _average(buckets, divide=True, put_back=True):
    for bucket in buckets:
        flat = torch.cat([p.grad.flatten() for p in bucket])
        dist.all_reduce(flat)
        if divide:
            flat /= dist.get_world_size()
        for p, piece in zip(
            bucket, flat.split([p.numel() for p in bucket]), strict=True
        ):
            if put_back:
                p.grad = piece.view_as(p)


def _with_gradient(parameters):
    return [p for p in parameters if p.grad is not None]


def buckets_sum(parameters, bucket_bytes):
    _average(fill_buckets(_with_gradient(parameters), bucket_bytes), divide=False)


def buckets_of_one(parameters, bucket_bytes):
    _average([[p] for p in reversed(_with_gradient(parameters))])


def buckets_all_in_one(parameters, bucket_bytes):
    _average([_with_gradient(parameters)[::-1]])


def buckets_in_forward_order(parameters, bucket_bytes):
    _average(fill_buckets(_with_gradient(parameters)[::-1], bucket_bytes))


def buckets_not_put_back(parameters, bucket_bytes):
    _average(fill_buckets(_with_gradient(parameters), bucket_bytes), put_back=False)


def buckets_without_the_last(parameters, bucket_bytes):
    bucket = []
    for parameter in reversed(_with_gradient(parameters)):
        bucket.append(parameter)
        if sum(p.nbytes for p in bucket) >= bucket_bytes:
            _average([bucket])
            bucket = []


def buckets_divided_by_two(parameters, bucket_bytes):
    _average(fill_buckets(_with_gradient(parameters), bucket_bytes))
    for parameter in _with_gradient(parameters):
        parameter.grad *= dist.get_world_size() / 2


def buckets_of_parameters(parameters, bucket_bytes):
    for bucket in fill_buckets(parameters, bucket_bytes):
        for parameter in bucket:
            dist.all_reduce(parameter.data.fill_(1.0))


def buckets_with_zeros(parameters, bucket_bytes):
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    _average(fill_buckets(parameters, bucket_bytes))


def _fill(parameters, is_full):
    buckets = [[]]
    for parameter in reversed(_with_gradient(parameters)):
        if is_full(buckets[-1]):
            buckets.append([])
        buckets[-1].append(parameter)
    return buckets


def buckets_more_than_full(parameters, bucket_bytes):
    def is_full(bucket):
        return sum(p.nbytes for p in bucket) > bucket_bytes

    _average(_fill(parameters, is_full))


def buckets_counted_in_numbers(parameters, bucket_bytes):
    def is_full(bucket):
        return sum(p.numel() for p in bucket) >= bucket_bytes

    _average(_fill(parameters, is_full))


def buckets_with_an_empty_last(parameters, bucket_bytes):
    buckets = [[]]
    for parameter in reversed(_with_gradient(parameters)):
        buckets[-1].append(parameter)
        if sum(p.nbytes for p in buckets[-1]) >= bucket_bytes:
            buckets.append([])
    _average(buckets)


def buckets_with_frozen_parameters(parameters, bucket_bytes):
    _average(fill_buckets(parameters, bucket_bytes))


def buckets_only_on_rank_0(parameters, bucket_bytes):
    if dist.get_rank() == 0:
        _average(fill_buckets(_with_gradient(parameters), bucket_bytes))


def buckets_nothing(parameters, bucket_bytes):
    pass


# 11-no-sync ---------------------------------------------------------------------------


def _hooks(module, average, after_exceptions=True, quiet=True):
    switch = {"on": True}

    def hook(parameter):
        if switch["on"]:
            average(parameter)

    for parameter in module.parameters():
        parameter.register_post_accumulate_grad_hook(hook)

    @contextmanager
    def no_sync():
        switch["on"] = not quiet
        try:
            yield
        except Exception:
            switch["on"] = after_exceptions
            raise
        switch["on"] = True

    return no_sync


def _average_gradient(parameter):
    parameter.grad /= dist.get_world_size()
    dist.all_reduce(parameter.grad)


def hooks_sum(module):
    return _hooks(module, lambda parameter: dist.all_reduce(parameter.grad))


def hooks_never_quiet(module):
    return _hooks(module, _average_gradient, quiet=False)


def hooks_quiet_after_an_exception(module):
    return _hooks(module, _average_gradient, after_exceptions=False)


def hooks_on_the_newest_gradient(module):
    """Diverges under accumulation: what no_sync has accumulated is never averaged."""
    switch = {"on": True}

    def hook(gradient):
        if not switch["on"]:
            return gradient
        gradient = gradient / dist.get_world_size()
        dist.all_reduce(gradient)
        return gradient

    for parameter in module.parameters():
        parameter.register_hook(hook)

    @contextmanager
    def no_sync():
        switch["on"] = False
        try:
            yield
        finally:
            switch["on"] = True

    return no_sync


def hooks_that_average_parameters(module):
    def average(parameter):
        parameter.data /= dist.get_world_size()
        dist.all_reduce(parameter.data)

    return _hooks(module, average)


def hooks_on_a_copy(module):
    return _hooks(module, lambda parameter: dist.all_reduce(parameter.grad.clone()))


def hooks_on_another_variable(module):
    quiet = False

    def hook(parameter):
        if not quiet:
            _average_gradient(parameter)

    for parameter in module.parameters():
        parameter.register_post_accumulate_grad_hook(hook)

    @contextmanager
    def no_sync():
        quiet = True  # noqa: F841
        yield

    return no_sync


def hooks_called(module):
    return _hooks(module, _average_gradient)()


def hooks_bare_generator(module):
    return _hooks(module, _average_gradient).__wrapped__


def hooks_that_expect_a_gradient(module):
    for parameter in module.parameters():
        parameter.register_post_accumulate_grad_hook(lambda gradient, _: gradient / 2)
    return nullcontext


def hooks_none(module):
    return nullcontext


def hooks_nothing(module):
    pass


WRONG = {
    "11-shard": [
        Wrong(
            "everyone_gets_all",
            shard_all,
            "more than once.*exactly once",
            note="The ranks do the same work side by side, and nothing gets faster.",
        ),
        Wrong(
            "a_deck_for_each_rank",
            shard_own_deck,
            "do all ranks shuffle the same deck",
            note="The rank got into the seed: some samples come twice, some never.",
        ),
        Wrong(
            "drops_the_remainder",
            shard_without_the_remainder,
            "does not divide the number of samples",
            note="Rounding down loses up to world_size - 1 samples.",
        ),
        Wrong(
            "starves_the_last_rank",
            shard_rounded_up,
            "no two ranks differ by more than one",
            note="Rounding up. Of 14 samples, the last of 4 ranks gets two fewer "
            "than the others.",
        ),
        Wrong(
            "pads_like_torch",
            shard_padded,
            "more than once",
            note="torch's DistributedSampler does this, so that all shards are equally "
            "long. Worth a word: it is a decision, not a law.",
        ),
        Wrong(
            "forgets_the_epoch",
            shard_without_epoch,
            "set_epoch",
            note="The same as a training loop without set_epoch. Nothing crashes.",
        ),
        Wrong(
            "deals_before_shuffling",
            shard_dealt_first,
            "what is shuffled first and dealt afterwards",
            note="Each rank sees the same half for ever, in changing order.",
        ),
        Wrong(
            "no_seed",
            shard_without_a_seed,
            "where the randomness comes from",
            note="Works in one process, where one generator is shared.",
        ),
        Wrong(
            "turns_the_deck_and_does_not_shuffle",
            shard_turned,
            "who shuffles the deck",
            note="Every index is dealt once, and each epoch has another order; but "
            "neighbours in the file stay neighbours.",
        ),
    ],
    "11-replicas": [
        Wrong(
            "replicas_share_their_storage",
            replicas_one_storage,
            "where the numbers of each replica live",
            note="`[model] * n` is one model. Its gradients add up and it takes every "
            "step: with two shards the step is too long. Published courses did this.",
        ),
        Wrong(
            "shallow_copies",
            replicas_shallow_copies,
            "where the numbers of each replica live",
            note="copy.copy makes a new module around the same parameters.",
        ),
        Wrong(
            "forgets_to_divide",
            replicas_sum,
            "the sum of the replicas' gradients and their mean",
            note="With SGD the step is n times too long. Adam hides it: 1.9e-2 "
            "apart under SGD was 1.3e-4 under AdamW.",
        ),
        Wrong(
            "mean_of_means",
            replicas_mean_of_means,
            "mean of means is not the mean",
            note="Right as long as all shards are equally long.",
        ),
        Wrong(
            "each_replica_its_own_step",
            replicas_each_its_own_step,
            "before it takes its step",
            note="After one step there are n different models.",
        ),
        Wrong(
            "uses_the_given_model",
            replicas_of_the_given_model,
            "where the numbers of each replica live",
            note="Replica 0 is the model that was given.",
        ),
        Wrong(
            "steps_the_given_model",
            replicas_copied_afterwards,
            "which one only is to be copied",
            note="The replicas are right, and the model has been trained behind their "
            "back.",
        ),
        Wrong("no_step", replicas_no_step, "which line changes the parameters"),
        Wrong("an_empty_program", replicas_nothing, "came back None"),
    ],
    "11-buckets": [
        Wrong(
            "forgets_to_divide",
            buckets_sum,
            "sum of 2 gradients",
            note="all_reduce sums. With Adam nobody would notice for a long time.",
        ),
        Wrong(
            "a_bucket_for_each_gradient",
            buckets_of_one,
            "10 collectives for 10 gradients",
            note="The result is right, and each small message pays the full latency.",
        ),
        Wrong(
            "one_bucket_for_all",
            buckets_all_in_one,
            "cannot leave before backward has ended",
            note="The result is right, and nothing can overlap.",
        ),
        Wrong(
            "first_parameter_first",
            buckets_in_forward_order,
            "ready first in backward",
            note="The bucket that is sent first is then the one that is ready last.",
        ),
        Wrong(
            "not_put_back",
            buckets_not_put_back,
            "back into `parameter.grad`",
            note="torch.cat copies: the bucket is averaged, the gradients are not.",
        ),
        Wrong(
            "loses_the_last_bucket",
            buckets_without_the_last,
            "for the last bucket too",
            note="The last bucket is never full, so nobody sends it.",
        ),
        Wrong(
            "divides_by_two",
            buckets_divided_by_two,
            "by how many ranks you divide",
            note="2 stands where dist.get_world_size() belongs.",
        ),
        Wrong("averages_parameters", buckets_of_parameters, "has its own gradient"),
        Wrong(
            "trips_over_a_frozen_parameter",
            buckets_with_frozen_parameters,
            "NoneType.*a parameter without a gradient",
            note="A frozen parameter has no gradient.",
        ),
        Wrong(
            "fills_none_with_zeros",
            buckets_with_zeros,
            "what None tells the optimizer",
            note="Then nothing raises, and weight decay moves what should stay.",
        ),
        Wrong(
            "more_than_full",
            buckets_more_than_full,
            "exactly 420 bytes is full",
            note="`>` stands where `>=` belongs.",
        ),
        Wrong(
            "counts_numbers",
            buckets_counted_in_numbers,
            "bytes or numbers",
            note="numel() for nbytes: the buckets are four times too large.",
        ),
        Wrong(
            "an_empty_last_bucket",
            buckets_with_an_empty_last,
            "whether a bucket can be empty",
            note="A new bucket is opened as soon as one is full, even if nothing is "
            "left to put into it.",
        ),
        Wrong(
            "only_rank_0_calls",
            buckets_only_on_rank_0,
            "rank 0 waits.*rank 1 has finished",
            state="HUNG",
            note="A collective ends only when every rank has called it.",
        ),
        Wrong("an_empty_program", buckets_nothing, "still has its own gradient"),
    ],
    "11-no-sync": [
        Wrong(
            "averages_only_the_newest_gradient",
            hooks_on_the_newest_gradient,
            "its gradient only, or all that has been accumulated",
            note="register_hook sees the new micro-batch's gradient; what was "
            "accumulated inside no_sync stays different in each rank, and the replicas "
            "drift apart. Published code did this: 1.5e-3 apart after 10 steps.",
        ),
        Wrong(
            "forgets_to_divide",
            hooks_sum,
            "the sum that all_reduce gives and the mean",
        ),
        Wrong(
            "never_quiet",
            hooks_never_quiet,
            "inside no_sync",
            note="The result is right, and every micro-batch pays for an all-reduce.",
        ),
        Wrong(
            "quiet_for_ever_after_an_exception",
            hooks_quiet_after_an_exception,
            "try ... finally",
        ),
        Wrong("averages_parameters", hooks_that_average_parameters, "differ"),
        Wrong(
            "averages_a_copy",
            hooks_on_a_copy,
            "have the messages arrived",
            note="The sum is in a tensor that nobody reads. An async_op=True without "
            "a wait looks the same, but only now and then.",
        ),
        Wrong(
            "another_variable",
            hooks_on_another_variable,
            "change the same variable",
            note="Without nonlocal, `quiet = True` in no_sync makes a new variable.",
        ),
        Wrong(
            "returns_no_sync_called",
            hooks_called,
            "return the function, without calling it",
        ),
        Wrong(
            "no_contextmanager",
            hooks_bare_generator,
            "is `@contextmanager` there",
            note="A generator function alone cannot stand after `with`.",
        ),
        Wrong(
            "a_hook_for_gradients",
            hooks_that_expect_a_gradient,
            "post-accumulate hook gets the parameter",
            note="Written for another kind of hook: this one gets the parameter only.",
        ),
        Wrong(
            "no_hook",
            hooks_none,
            "a hook on every parameter",
            note="A no_sync that is always right, because nothing ever travels.",
        ),
        Wrong("an_empty_program", hooks_nothing, "what is to be returned"),
    ],
}
