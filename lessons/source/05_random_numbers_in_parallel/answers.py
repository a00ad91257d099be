"""Answers to the exercises of lesson 05 that people give, and that are not right."""

import hashlib
import itertools
import math
import random
import time
from operator import call

import numpy as np
import torch

from lessons.source.sample_answers import right, wrong

# 05-shared


@wrong(
    "05-shared",
    advice="began later in the same stream",
    note="People often compare only what stands first. It finds copies made at "
    "the same moment, and misses a worker that is one draw behind.",
)
def compares_first_numbers(outputs):
    count = len(outputs)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    return [(i, j) for i, j in pairs if outputs[i][:1] == outputs[j][:1] != []]


@wrong(
    "05-shared",
    advice="began later in the same stream",
    note="Workers with shares of different size never have equal lists.",
)
def compares_whole_lists(outputs):
    count = len(outputs)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    return [(i, j) for i, j in pairs if outputs[i] and outputs[i] == outputs[j]]


@wrong(
    "05-shared",
    advice="began later|no neighbours",
    note="One loop instead of two: only workers with adjacent numbers meet.",
)
def compares_neighbours(outputs):
    pairs = [(i, i + 1) for i in range(len(outputs) - 1)]
    return [(i, j) for i, j in pairs if set(outputs[i]) & set(outputs[j])]


@wrong(
    "05-shared",
    advice="is it there once, with i less than j",
    note="Both loops over all workers give (0, 2) and (2, 0).",
)
def returns_each_pair_twice(outputs):
    ids = range(len(outputs))
    pairs = [(i, j) for i in ids for j in ids if i != j]
    return [(i, j) for i, j in pairs if set(outputs[i]) & set(outputs[j])]


@wrong(
    "05-shared",
    advice="is it there once, with i less than j",
    note="Every worker shares its numbers with itself.",
)
def pairs_a_worker_with_itself(outputs):
    ids = range(len(outputs))
    pairs = [(i, j) for i in ids for j in ids if i <= j]
    return [(i, j) for i, j in pairs if set(outputs[i]) & set(outputs[j])]


@wrong(
    "05-shared",
    advice="began later|IndexError",
    note="It looks only for the first number, and there may be none.",
)
def fails_on_empty_lists(outputs):
    count = len(outputs)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    return [(i, j) for i, j in pairs if outputs[i][0] in outputs[j]]


@wrong(
    "05-shared",
    advice="stands first in neither list",
    note="Nearly right: one of the two begins later, so its first number is in "
    "the other. Unless both have skipped some.",
)
def looks_for_first_numbers(outputs):
    count = len(outputs)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    both = [(i, j) for i, j in pairs if outputs[i] and outputs[j]]
    return [
        (i, j)
        for i, j in both
        if outputs[i][0] in outputs[j] or outputs[j][0] in outputs[i]
    ]


@wrong(
    "05-shared",
    advice="who else uses what",
    note="Right pairs, and the caller's list is gone.",
)
def empties_the_list(outputs):
    pairs, i = [], 0
    while outputs:
        first = set(outputs.pop(0))
        pairs += [(i, i + 1 + k) for k, other in enumerate(outputs) if first & {*other}]
        i += 1
    return pairs


@wrong(
    "05-shared",
    advice="differ in the last digit",
    note="A copied state gives copies to the last bit.",
)
def takes_nearly_equal_for_equal(outputs):
    def alike(one, other):
        return any(math.isclose(x, y) for x in one for y in other)

    pairs = itertools.combinations(range(len(outputs)), 2)
    return [(i, j) for i, j in pairs if alike(outputs[i], outputs[j])]


@wrong(
    "05-shared",
    advice="a number like the others",
    note="any() asks for a number other than 0; a set of one 0.0 has none.",
)
def asks_any_of_the_numbers(outputs):
    pairs = itertools.combinations(range(len(outputs)), 2)
    return [(i, j) for i, j in pairs if any(set(outputs[i]) & set(outputs[j]))]


@wrong("05-shared", advice="how far do you look")
def looks_at_a_thousand_numbers(outputs):
    pairs = itertools.combinations(range(len(outputs)), 2)
    sets = [set(numbers[:1000]) for numbers in outputs]
    return [(i, j) for i, j in pairs if sets[i] & sets[j]]


@wrong("05-shared", advice="who comes after it")
def counts_only_who_has_numbers(outputs):
    return in_numpy([numbers for numbers in outputs if numbers])


@wrong("05-shared", advice="two workers with one number each")
def looks_for_two_in_a_row(outputs):
    pairs = itertools.combinations(range(len(outputs)), 2)
    runs = [set(itertools.pairwise(numbers)) for numbers in outputs]
    return [(i, j) for i, j in pairs if runs[i] & runs[j]]


@wrong(
    "05-shared",
    advice="keeps from its earlier calls",
    note="A default value is made once, and stays from call to call.",
)
def keeps_its_pairs(outputs, pairs=[]):  # noqa: B006
    pairs += in_numpy(outputs)
    return pairs


keeps_its_pairs.__module__ = "__main__"  # as if defined in a notebook


@wrong(
    "05-shared",
    advice="three workers with one stream",
    note="Finds (0, 1) and (0, 2), and forgets (1, 2).",
)
def keeps_the_first_owner(outputs):
    owner, pairs = {}, set()
    for worker, numbers in enumerate(outputs):
        for number in numbers:
            first = owner.setdefault(number, worker)
            if first != worker:
                pairs.add((first, worker))
    return sorted(pairs)


@right("05-shared")
def all_owners_of_a_number(outputs):
    owners, pairs = {}, set()
    for worker, numbers in enumerate(outputs):
        for number in numbers:
            owners.setdefault(number, {})[worker] = True
    for workers in owners.values():
        pairs |= set(itertools.combinations(workers, 2))
    return pairs


@right("05-shared")
def in_numpy(outputs):
    pairs = np.argwhere(np.triu(np.ones((len(outputs), len(outputs))), 1))
    return [[i, j] for i, j in pairs if np.isin(outputs[i], outputs[j]).any()]


# 05-items


@wrong(
    "05-items",
    advice="another in this share",
    note="The most frequent answer. The second number of a stream depends on "
    "who came first, so on the share. It is the worker's stream in disguise.",
)
def one_stream_per_share(seed, epoch, items):
    return np.random.default_rng([seed, epoch]).random(len(items)).tolist()


@wrong(
    "05-items",
    advice="another in this share",
    note="Better hidden: the first item is right in every share.",
)
def one_stream_per_share_by_its_first_item(seed, epoch, items):
    stream = np.random.default_rng([seed, epoch, *items[:1]])
    return [stream.random() for _ in items]


@wrong(
    "05-items",
    advice="mixed into one",
    note="Item 1 of epoch 0 is item 0 of epoch 1: a sum is no key.",
)
def adds_the_three(seed, epoch, items):
    return [np.random.default_rng(seed + epoch + item).random() for item in items]


@wrong(
    "05-items",
    advice="which of the three is lost",
    note="The augmentation repeats in every epoch.",
)
def forgets_the_epoch(seed, epoch, items):
    return [np.random.default_rng([seed, item]).random() for item in items]


@wrong("05-items", advice="which of the three is lost", note="All runs are one run.")
def forgets_the_seed(seed, epoch, items):
    return [np.random.default_rng([epoch, item]).random() for item in items]


@wrong(
    "05-items",
    advice="for item 0, first .* besides seed, epoch and item",
    note="Independent, and never the same again.",
)
def does_not_seed(seed, epoch, items):
    return [np.random.default_rng().random() for _ in items]


@wrong(
    "05-items",
    advice="a number of its own",
    note="A new generator for each item, all with the same key.",
)
def same_for_all_items(seed, epoch, items):
    return [np.random.default_rng([seed, epoch]).random() for _ in items]


@wrong(
    "05-items",
    advice="another in this share",
    note="The share's length has come in by the back door, from epoch 1 on.",
)
def counts_on_from_epoch_to_epoch(seed, epoch, items):
    places = [epoch * len(items) + item for item in items]
    return [np.random.default_rng([seed, place]).random() for place in places]


@wrong(
    "05-items",
    advice=r"\(0, 1, 0\) and \(0, 0, 1000\)",
    note="Right, until somebody has more items than there was room for.",
)
def leaves_room_for_1000_items(seed, epoch, items):
    keys = [seed * 1_000_000 + epoch * 1000 + item for item in items]
    return [np.random.default_rng(key).random() for key in keys]


@wrong(
    "05-items",
    advice=r"\(0, 1, 11\) and \(0, 11, 1\)",
    note="0, 11, 1 and 0, 1, 11 are both 0111. A separator would do.",
)
def puts_digits_side_by_side(seed, epoch, items):
    return [random.Random(f"{seed}{epoch}{item}").random() for item in items]


@wrong(
    "05-items",
    advice="another process, which gets other numbers",
    note="Python hashes a text in another way each time that it is started.",
)
def hashes_a_text(seed, epoch, items):
    texts = [f"{seed}/{epoch}/{item}" for item in items]
    return [random.Random(hash(text)).random() for text in texts]


@wrong(
    "05-items",
    advice="one number for each entry",
    note="A dictionary has one place for an item that is asked for twice.",
)
def loses_what_comes_twice(seed, epoch, items):
    numbers = {i: np.random.default_rng([seed, epoch, i]).random() for i in items}
    return list(numbers.values())


@wrong(
    "05-items",
    advice="to print is not to return",
    note="The list is made and thrown away.",
)
def forgets_to_return(seed, epoch, items):
    [np.random.default_rng([seed, epoch, item]).random() for item in items]


@wrong(
    "05-items",
    advice="tell about the other",
    note="Different numbers are not yet random numbers.",
)
def no_random_numbers(seed, epoch, items):
    return [(seed * 0.732 + epoch * 0.414 + item * 0.618034) % 1 for item in items]


@wrong(
    "05-items",
    advice="another process, which gets other numbers",
    note="A dictionary of what was drawn: the next process has another one.",
    given=call,
)
def remembers_its_numbers():
    memory, dice = {}, random.Random()

    def noise_of(seed, epoch, items):
        return [memory.setdefault((seed, epoch, i), dice.random()) for i in items]

    return noise_of


@wrong(
    "05-items",
    advice="and \\(0, 0, 10000000\\)",
    note="More room is still room for so many.",
)
def leaves_room_for_10_million_items(seed, epoch, items):
    keys = [(seed * 10**7 + epoch) * 10**7 + item for item in items]
    return [random.Random(key).random() for key in keys]


@wrong(
    "05-items",
    advice="and \\(0, 0, 1000003\\)",
    note="A prime is as good as a thousand: item 1,000,003 of epoch 0.",
)
def multiplies_by_a_prime(seed, epoch, items):
    keys = [seed * 15_485_863 ^ epoch * 1_000_003 ^ item for item in items]
    return [np.random.default_rng(key).random() for key in keys]


@wrong(
    "05-items",
    advice="how many numbers there are: 16,777,216",
    note="float32, as in torch.rand: two of 5,000 items are often alike.",
)
def draws_24_bits(seed, epoch, items):
    keys = [[seed, epoch, item] for item in items]
    return [float(np.random.default_rng(key).random(dtype="float32")) for key in keys]


@wrong("05-items", advice="besides seed, epoch and item", note="Right for an hour.")
def seeds_with_the_clock(seed, epoch, items):
    today = int(time.time()) // 3600
    return [random.Random(f"{today}/{seed}/{epoch}/{i}").random() for i in items]


@wrong(
    "05-items",
    advice="tell about the other",
    note="All numbers differ, and all epochs are one.",
)
def moves_on_with_the_epoch(seed, epoch, items):
    numbers = [np.random.default_rng([seed, item]).random() for item in items]
    return [(number + epoch * 0.2113) % 1 for number in numbers]


@wrong(
    "05-items",
    advice="how many different numbers your function can return",
    note="A million numbers: two of 5,000 items are often alike.",
)
def rounds_to_six_digits(seed, epoch, items):
    return [round(number, 6) for number in seeds_with_a_text(seed, epoch, items)]


@wrong("05-items", advice="items 4997 and 1005000 have the same")
def takes_the_item_modulo_a_prime(seed, epoch, items):
    return gives_each_32_bits(seed, epoch, [item % 1_000_003 for item in items])


@wrong(
    "05-items",
    advice="16777216.* and .*16777217",
    note="float32 has 24 bits: large neighbours become one.",
)
def makes_the_key_of_small_floats(seed, epoch, items):
    keys = [np.array([seed, epoch, item], np.float32) for item in items]
    return [random.Random(key.tobytes()).random() for key in keys]


@wrong(
    "05-items",
    advice="at item 4,294,967,295 alone|at item 1,000,000,000 alone",
    note="Right, and the last item needs 32 GiB.",
    state="NOT YET or HUNG",
)
def draws_up_to_the_item(seed, epoch, items):
    stream = np.random.default_rng([seed, epoch])
    return [float(n) for n in stream.random(max(items, default=0) + 1)[items]]


@wrong("05-items", advice="a list of numbers")
def returns_a_generator(seed, epoch, items):
    return (number for number in seeds_with_a_text(seed, epoch, items))


@right("05-items")
def seeds_with_a_text(seed, epoch, items):
    return [random.Random(f"{seed}/{epoch}/{item}").random() for item in items]


@right("05-items")
def digests_a_text(seed, epoch, items):
    texts = [f"{seed} {epoch} {item}".encode() for item in items]
    digests = [hashlib.sha256(text).digest() for text in texts]
    return [int.from_bytes(digest[:6], "big") / 2**48 for digest in digests]


@right("05-items")
def gives_each_32_bits(seed, epoch, items):
    keys = [seed << 64 | epoch << 32 | item for item in items]
    return tuple(np.random.default_rng(key).random() for key in keys)


# 05-replicas


@wrong(
    "05-replicas",
    advice="replicas begin with equal weights",
    note="People often seed the program with seed + rank, once, at the top.",
)
def seed_plus_rank_for_both(rank, seed):
    stream = np.random.default_rng(seed + rank)
    return stream.random(4).tolist(), stream.random(4).tolist()


@wrong(
    "05-replicas",
    advice="what becomes of the rank",
    note="The opposite: one seed for everything. All ranks augment alike.",
)
def same_for_all_ranks(rank, seed):
    stream = np.random.default_rng(seed)
    return stream.random(4).tolist(), stream.random(4).tolist()


@wrong(
    "05-replicas",
    advice="which others become the same",
    note="Rank 1 of seed 0 is rank 0 of seed 1.",
)
def noise_from_seed_plus_rank(rank, seed):
    weights = np.random.default_rng([seed, 2**31]).random(4)
    return weights.tolist(), np.random.default_rng(seed + rank).random(4).tolist()


@wrong(
    "05-replicas",
    advice="noise of rank 0, seed 1; the noise of rank 100, seed 0",
    note="It holds for every machine that the author has seen.",
)
def leaves_room_for_100_ranks(rank, seed):
    weights = np.random.default_rng([seed, 2**31]).random(4)
    return weights.tolist(), np.random.default_rng(100 * seed + rank).random(4).tolist()


@wrong(
    "05-replicas",
    advice="what does the one list tell about the other",
    note="Different numbers, and one stream.",
)
def adds_the_rank_to_the_noise(rank, seed):
    weights = np.random.default_rng([seed, 0]).random(4)
    return weights, (np.random.default_rng([seed, 1]).random(4) + 0.1 * rank) % 1


@wrong(
    "05-replicas",
    advice="weights of seed 1; the noise of rank 0, seed 0",
    note="Two families that are not kept apart by a name of their own.",
)
def noise_is_the_weights_of_another_seed(rank, seed):
    weights = np.random.default_rng(seed).random(4)
    return weights, np.random.default_rng(1_000_000_000 * seed + rank + 1).random(4)


@wrong(
    "05-replicas",
    advice="what becomes of the seed",
    note="Every run has the same noise, so ten runs tell less than they seem.",
)
def noise_without_the_seed(rank, seed):
    weights = np.random.default_rng([seed, 0]).random(4)
    return weights, np.random.default_rng([1, 1, rank]).random(4)


@wrong("05-replicas", advice="two places in one", note="Exercise 1 would find it.")
def begins_later_in_the_same_stream(rank, seed):
    stream = np.random.default_rng(seed)
    return stream.random(4), stream.random(4 + rank)[rank:]


@wrong(
    "05-replicas",
    advice="another process, which gets other numbers",
    note="The hash of a text is another in each Python that is started: no two "
    "machines agree.",
)
def hashes_a_name(rank, seed):
    weights = np.random.default_rng(abs(hash(f"weights {seed}"))).random(4)
    return weights, np.random.default_rng([seed, 1, rank]).random(4)


@wrong(
    "05-replicas",
    advice="two lists, weights and noise",
    note="Eight numbers in one list.",
)
def returns_one_list(rank, seed):
    weights = np.random.default_rng([seed, 0]).random(4)
    return [*weights, *np.random.default_rng([seed, 1, rank]).random(4)]


@wrong(
    "05-replicas",
    advice="the noise that is somebody's weights",
    note="Nearly everyone: two uses of one key, and rank 0 gets it twice.",
)
def noise_of_rank_0_is_the_weights(rank, seed):
    weights = np.random.default_rng([seed, 0]).random(4)
    return weights.tolist(), np.random.default_rng([seed, rank]).random(4).tolist()


@wrong(
    "05-replicas",
    advice="a generator without a seed",
    note="It trains well and cannot be repeated.",
)
def noise_is_not_seeded(rank, seed):
    weights = np.random.default_rng(seed).random(4)
    return weights.tolist(), np.random.default_rng().random(4).tolist()


@wrong(
    "05-replicas",
    advice="global generator of torch has changed",
    note="The usual manual_seed. It works until a library draws in between, "
    "and dropout then continues with the noise's stream.",
)
def seeds_the_global_generators(rank, seed):
    torch.manual_seed(seed)
    weights = torch.rand(4)
    torch.manual_seed(int(np.random.SeedSequence([seed, 7, rank]).generate_state(1)[0]))
    return weights, torch.rand(4)


@wrong(
    "05-replicas",
    advice="another seed, for other weights",
    note="A seed that is written into the code.",
)
def ignores_the_seed(rank, seed):
    weights = np.random.default_rng(0).random(4)
    return weights.tolist(), np.random.default_rng([1, rank]).random(4).tolist()


@wrong(
    "05-replicas",
    advice="a generator without a seed",
    note="A generator of one's own for the weights, the global one for the noise.",
)
def draws_from_random(rank, seed):
    dice = random.Random(seed)
    return [dice.random() for _ in range(4)], [random.random() for _ in range(4)]


@wrong(
    "05-replicas",
    advice="another process, which gets other numbers",
    note="Equal on all ranks as long as all ranks are one process.",
    given=call,
)
def remembers_its_lists():
    memory, dice = {}, random.Random()

    def four(*key):
        return memory.setdefault(key, [dice.random() for _ in range(4)])

    return lambda rank, seed: (four(seed), four(seed, rank))


@wrong(
    "05-replicas",
    advice="what does the one list tell about the other",
    note="Other numbers, no other draw.",
)
def stretches_the_weights(rank, seed):
    weights = np.random.default_rng([seed, 5]).random(4)
    return weights, weights / (rank + 2)


@wrong(
    "05-replicas",
    advice="four draws, or one",
    note="A new generator for each of the four.",
)
def repeats_one_number(rank, seed):
    weights = [np.random.default_rng([seed, 0, 5]).random() for _ in range(4)]
    return weights, np.random.default_rng([seed, 1, rank]).random(4)


@wrong("05-replicas", advice="seed 16777216.* seed 16777217.*what becomes of the seed")
def takes_the_seed_in_single_precision(rank, seed):
    seed = int(torch.tensor(float(seed)))
    return children_of_one_seed(rank, seed)


@wrong(
    "05-replicas",
    advice="who else has them",
    note="The next call returns what the first caller has made of them.",
)
def returns_the_lists_that_it_keeps(rank, seed, kept={}):  # noqa: B006
    if (rank, seed) not in kept:
        kept[rank, seed] = children_of_one_seed(rank, seed)
    return kept[rank, seed]


@wrong("05-replicas", advice="what becomes of the rank in the noise")
def turns_the_noise_of_its_neighbour_round(rank, seed):
    weights, noise = children_of_one_seed(rank // 2, seed)
    return weights, noise[::-1] if rank % 2 else noise


@right("05-replicas")
def children_of_one_seed(rank, seed):
    weights, noise = np.random.SeedSequence(seed).spawn(2)
    own = noise.spawn(rank + 1)[rank]
    return [np.random.default_rng(one).random(4) for one in (weights, own)]


@right("05-replicas")
def restores_what_it_seeds(rank, seed):
    with torch.random.fork_rng():
        torch.manual_seed(hash((seed, -1)))
        weights = torch.rand(4)
        torch.manual_seed(hash((seed, rank)))
        return weights, torch.rand(4)


@wrong(
    "05-replicas",
    advice="what do rank and seed become for each",
    note="The last of 10,000 ranks draws what the next seed's weights are.",
)
def leaves_no_room_for_the_weights(rank, seed):
    first = 10_000 * seed  # 10,000 ranks and the weights are 10,001
    streams = random.Random(first), random.Random(first + 1 + rank)
    return tuple([stream.random() for _ in range(4)] for stream in streams)


@wrong(
    "05-replicas",
    advice="of np.random has changed",
    note="Normal numbers are made in pairs; the state holds the second one.",
)
def restores_half_of_what_it_seeds(rank, seed):
    before, lists = np.random.get_state(), []
    for key in [1, seed], [2, seed, rank + 1]:
        np.random.seed(key)
        lists.append(np.random.random(4).tolist())
    np.random.set_state(before[:3])  # name, keys and place, and not what is held ready
    return tuple(lists)


@wrong("05-shared", advice="equal numbers")
def finds_the_same_objects(outputs):
    drawn = [set(map(id, numbers)) for numbers in outputs]
    pairs = itertools.combinations(range(len(drawn)), 2)
    return [(i, j) for i, j in pairs if drawn[i] & drawn[j]]


@wrong("05-items", advice="is lost")
def takes_the_largest_for_zero(seed, epoch, items):
    def draw(item):
        key = [number % (2**32 - 1) for number in (seed, epoch, item)]
        return np.random.default_rng(key).random()

    return [draw(item) for item in items]


@wrong("05-replicas", advice="which others become")
def three_digits_for_the_rank(rank, seed):
    streams = random.Random(f"weights{seed}"), random.Random(f"noise{seed}{rank:03}")
    return tuple([stream.random() for _ in range(4)] for stream in streams)


@wrong("05-replicas", advice="what becomes of the seed")
def takes_the_largest_seed_for_zero(rank, seed):
    keys = [seed % (2**32 - 1), 0], [seed % (2**32 - 1), 1, rank]
    return tuple(np.random.default_rng(key).random(4).tolist() for key in keys)
