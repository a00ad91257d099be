# ---
# title: 10b All-reduce and its cost
# question: What does it cost to give everyone the sum, and which way is the cheapest?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 10b. All-reduce and its cost
#
# In data-parallel training all ranks need the sum of all gradients, after every step.
# *All-reduce* gives it to them. In 10a all of it went through one rank. Here are three
# better ways, judged by the meter of 10a.
#
# Then we measure what one message costs on this machine. Two numbers estimate what an
# all-reduce costs, and which way is the cheapest.
#
# *You will be able to* write an all-reduce round a ring, estimate its time, say what
# the estimate leaves out, and explain why training on two ranks and on four gives
# slightly different weights.
#
# *Before this:* lesson 10a. *Time:* {reading} minutes, and 50 for the exercises. *Needs:* two
# CPU cores, no GPU.

# %% [markdown] tags=["instructor"]
# ## At the root, and round a ring: 10 minutes
#
# Four people in a row, each with four cards that show a number. First everyone brings
# all cards to person 0, who adds, alone, while three people watch. Then the ring: each
# hands one card to the right at every clap. Six claps, and nobody ever stood still.
#
# Ask what a rank of the ring needs room for besides its cards: one chunk.
#
# When late: go straight to the timeline.

# %% [markdown]
# ## At the root
#
# In 10a all ranks sent to rank 0, which added up and sent the total back. Below, eight
# ranks do that. Rank $r$ holds $10^r$ in all of its 1,000 numbers, of four bytes each,
# so each digit of the sum says which rank was counted. `meter_all_reduce` returns the
# meter and the sum of each rank.

# %%
from parallel_by_hand.collectives.all_reduce_four_ways import meter_all_reduce
from parallel_by_hand.collectives.all_reduces import all_reduce_at_root
from sidebyside import run_ranks

ranks = run_ranks(meter_all_reduce, all_reduce_at_root, 1000, world_size=8)
print([int(total[0]) for _, total in ranks])
for rank in (0, 1, 7):
    print(f"rank {rank}: {ranks[rank][0]}")

# %% [markdown]
# The sum is right. But **rank 0 sends $(N-1)S$ and receives as much**, where $N$ is the
# number of ranks and $S$ the size of the tensor in bytes; every other rank sends $S$.
# While rank 0 works, seven ranks wait.

# %% [markdown]
# ## Round a ring
#
# The **ring** shares the work. Each rank cuts its tensor into $N$ chunks and only ever
# talks to its neighbours: it sends to the right and receives from the left.
#
# At every step each rank passes one chunk on and adds the one that arrives to its own.
# After $N-1$ steps every rank has one finished chunk. In $N-1$ more steps the finished
# chunks go round once. Below, each of four ranks has a row of boxes, its chunks 0 to 3;
# the number in a box says how many ranks the chunk adds up. Move the step with the
# slider, its buttons or the arrow keys, and follow one chunk: a black edge marks what
# has just arrived. Then change the number of ranks.

# %%
from lessons.props.all_reduce_and_its_cost import touch_ring

touch_ring(4)

# %% [markdown]
# A timeline shows the same six steps, slowed down. `paced_link(alpha, beta)` makes
# every message take `alpha` seconds and `beta` more for each byte, by sleeping: this is
# the **paced link**. A rank sends one message at a time and receives one at a time; both
# at once cost nothing extra. Each bar is labelled with the chunk that the rank sends.

# %%
import torch
import torch.distributed as dist

from parallel_by_hand.collectives.all_reduces import ring_all_reduce
from parallel_by_hand.collectives.paced_link import paced_link
from sidebyside import Timeline, device


def ring_over_paced_link() -> None:
    dist.barrier()  # all start together
    with paced_link(alpha=0.03, beta=0):
        ring_all_reduce(torch.ones(8, device=device()))


with Timeline() as timeline:
    run_ranks(ring_over_paced_link, world_size=4)
timeline.plot(stamp="simulated", height=2.6)

# %% [markdown]
# In the first half, three steps called `reduce`, chunks collect sums: chunk 0 starts on
# rank 0, moves one rank to the right at each step, and ends, complete, on rank 3. The
# second half, `gather`, begins with the chunks just finished.
#
# You know both from 10a: **a ring all-reduce is a reduce-scatter and then an
# all-gather.** At every step all links are in use. Each chunk is added up once, and
# then copied, so every rank gets the same bits.

# %% [markdown]
# ## Exercise 1: the ring
#
# Write `ring(tensor)`. It runs in each of $N$ ranks and replaces the contiguous
# `tensor`, of any length, by the sum over all ranks, the same bits on every rank.
#
# The meter judges: each rank sends to its right neighbour only, in at most $2(N-1)$
# steps, so it sends and receives at the same time. If $N$ divides the length, a rank
# sends $2(N-1)/N$ of it.
#
# By hand first: three ranks hold `[1, 1, 1]`, `[10, 10, 10]` and `[100, 100, 100]`.
# Rank $r$ sends its chunk $r$ in the first step. What does each rank hold after it, and
# which chunk does rank 0 send next?
#
# <!-- exercise: 10b-ring -->
#
# <details><summary>Hint 1: a question</summary>
#
# A rank should send in each step the chunk to which it has added in the step before.
# Which chunk does rank r receive in step 0, and which in step 1?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# In step s of the first half, rank r sends chunk r − s and receives chunk r − s − 1,
# both modulo N. After the last of these steps it holds chunk r + 1, finished. The second
# half begins with this chunk. There, what arrives replaces what was there.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `chunks = tensor.view(-1).tensor_split(ranks)` are views: `add_` and `copy_` on a
# chunk change `tensor`. First half: send chunk `(rank - step) % ranks` to the right,
# receive into an empty tensor, and add that to the chunk before it. Second half: the
# same with the next chunk, `(rank + 1 - step) % ranks`, and what arrives replaces what
# was there.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1, the ring: 20 minutes
#
# Let people fill in a table on paper first: rows are steps, columns ranks, entries the
# chunk that is sent. People who skip it are off by one in the second half.
#
# Expected: whole tensors that travel (right sum, too many bytes: many published rings
# do that), `send` before `recv` on all ranks (hangs), and `chunk` for `tensor_split`.

# %% [markdown]
# `exchange` is the function of 10a that sends and receives at the same time.

# %% exercise="10b-ring"
from parallel_by_hand.collectives.eight_collectives import exchange
from sidebyside import forget, hint, progress, solution


def ring(tensor: torch.Tensor) -> None:
    """Sum `tensor` over all ranks, in place, by messages to the right neighbour.

    `exchange({to: outgoing}, {of: incoming})` sends `outgoing` to rank `to`, while
    `incoming` is filled by rank `of`.
    """
    ### BEGIN SOLUTION
    rank, ranks = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        arriving = chunks[(rank - step - 1) % ranks]
        received = torch.empty_like(arriving)
        exchange({right: chunks[(rank - step) % ranks]}, {left: received})
        arriving.add_(received)
    for step in range(ranks - 1):
        arriving = chunks[(rank - step) % ranks]
        exchange({right: chunks[(rank + 1 - step) % ranks]}, {left: arriving})
    ### END SOLUTION


# %%
from sidebyside import check

check("10b-ring", ring)

# %% [markdown] tags=["why"]
# <!-- why: 10b-ring -->
# Why it works: each chunk makes one round. Chunk c sets out on rank c and collects one
# summand on each rank that it comes to, so after N − 1 steps it is complete, on rank c
# − 1. In the second half it makes another N − 1 steps, and each rank on its way keeps a
# copy. Every rank sends every chunk but one in each half: 2(N − 1) chunks of S/N. No
# rank waits for a neighbour's receive, because each sends and receives at once.
#
# By hand: `[1, 1, 101]`, `[11, 10, 10]`, `[100, 110, 100]`. Rank 0 then sends chunk 2,
# the 101.

# %% [markdown] tags=["instructor"]
# ## Tree, halving, and the bill: 8 minutes
#
# Write the ranks in binary. Parents in the tree: strike the last 1. Partners in halving
# and doubling: flip one bit. Then both programs read themselves.
#
# When late: skip halving and doubling; the table shows what it costs.

# %% [markdown]
# ## Down a tree
#
# A ring of 1,000 ranks takes 1,998 steps, however short the tensor is. In a **binomial
# tree** sums go down to rank 0, and the total comes back up. A rank's *parent* has its
# number without the last 1 in binary: 6, which is 110, sends to 4, which is 100, and 4
# sends to 0. Pairs without a common rank talk in the same step. Here are four ranks;
# each box is a whole tensor:

# %%
from lessons.props.all_reduce_and_its_cost import draw_who_holds_what

draw_who_holds_what("tree", 4)

# %%
from parallel_by_hand.collectives.all_reduces import tree_all_reduce
from sidebyside import guess, show

show(tree_all_reduce)
guess("10b-tree", None, "How many steps does the tree take for 8 ranks?", "steps")

# %% [markdown]
# The fourth way, **recursive halving and doubling**, swaps halves with a far partner,
# then quarters with a nearer one, until each rank holds one finished piece. On the way
# back the pieces double. `rank ^ distance` is the partner, whose number differs in that
# one bit.
#
# | | rank 0 | rank 1 | rank 2 | rank 3 | of |
# |---|---|---|---|---|---|
# | at first | A B C D | A B C D | A B C D | A B C D | 1 rank |
# | halves swapped, distance 2 | A B | A B | C D | C D | 2 ranks |
# | quarters swapped, distance 1 | A | B | C | D | all |
# | back, distance 1 | A B | A B | C D | C D | all |
# | back, distance 2 | A B C D | A B C D | A B C D | A B C D | all |
#
# On the way back, `give` is the room for the half that arrives.

# %%
from parallel_by_hand.collectives.all_reduces import halve_then_double

show(halve_then_double)

# %% [markdown]
# Here are all four under the meter, for eight ranks with 1,000 numbers each, 4,000
# bytes. A step is as in 10a: all messages that can travel at the same time.

# %%
from parallel_by_hand.collectives.all_reduce_four_ways import (
    meter_every_way,
    print_meters,
)
from sidebyside import consecutive_steps, reveal

ranks = run_ranks(meter_every_way, 1000, world_size=8)
print_meters(ranks)
steps = consecutive_steps([meters["tree"] for meters in ranks])
reveal("10b-tree", steps, computed=True)

# %% [markdown]
# With eight ranks **the tree takes 6 steps and the ring 14**: $2\lceil \log_2 N \rceil$
# against $2(N-1)$. But each message of the tree is a whole tensor, and each of the ring
# an eighth of one. **A rank of the ring sends at most two tensors, however many ranks
# there are.**

# %% [markdown]
# Halving and doubling has the few steps of the tree and the few bytes of the ring, if
# $N$ is a power of two. But its partners are far apart: in a real network, where all
# pairs share cables, that costs more than a table can say. We leave it out below.

# %% [markdown] tags=["instructor"]
# ## The last bits: 7 minutes
#
# Ask first: are the four sums equal? Nearly everyone says yes. Then: are the four ranks
# equal to each other? Now people hesitate, and this one is a yes.
#
# When late: show the counts, and tell the end of the second experiment.

# %% [markdown]
# ## The same sum?
#
# Real numbers may be added in any order. Is that true in the computer? Four ranks draw
# 100,000 numbers each, and we count the sums that differ from those made at the root.

# %%
from parallel_by_hand.collectives.all_reduces import ALL_REDUCES


def sums_of_every_way() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(dist.get_rank())
    numbers = torch.rand(100_000, generator=generator).to(device())
    sums = {way: numbers.clone() for way in ALL_REDUCES}
    for way, total in sums.items():
        ALL_REDUCES[way](total)
    return {way: total.cpu() for way, total in sums.items()}


print(f"{(0.1 + 0.2) + 0.3 == 0.1 + (0.2 + 0.3) = }")
of_ranks = run_ranks(sums_of_every_way, world_size=4)
for way, total in of_ranks[0].items():
    same = all(torch.equal(total, sums[way]) for sums in of_ranks)
    differ = int((total != of_ranks[0]["root"]).sum())
    print(f"{way:<16} equal on all ranks: {same}, differ from the root's: {differ:,}")

# %% [markdown]
# Each addition rounds, and from three ranks on the ways add in different orders. So
# **the four sums differ in their last bits, and each is equal on all ranks, bit for
# bit**. The second is what training needs: replicas that get the same sum stay equal.

# %% [markdown]
# For the same reason, training on two ranks and on four does not give the same weights,
# even with the same batches: each rank first sums over its own images, 32 or 16. We
# train on the digits and keep the parameters after each of 22 steps:

# %%
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from sidebyside import load_digits


def train_round_ring() -> torch.Tensor:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10)).to(device())
    images, labels = (data.to(device()) for data in load_digits("train"))
    parameters, history = list(model.parameters()), []
    for batch in torch.arange(22 * 64).split(64):
        mine = batch[dist.get_rank() :: dist.get_world_size()]
        loss = nn.functional.cross_entropy(model(images[mine]), labels[mine])
        gradients = torch.autograd.grad(loss / dist.get_world_size(), parameters)
        flat = parameters_to_vector(gradients)
        ring_all_reduce(flat)
        history.append(parameters_to_vector(parameters).detach() - 0.5 * flat)
        vector_to_parameters(history[-1], parameters)
    return torch.stack(history).cpu()


# %%
two, four = (run_ranks(train_round_ring, world_size=n) for n in (2, 4))
print("replicas equal:", all(torch.equal(x[0], y) for x in (two, four) for y in x))
apart = (two[0] - four[0]).abs()
for step in (0, 21):
    share = 100 * (apart[step] > 0).float().mean()
    print(f"step {step + 1}: {share:.0f} % of the parameters differ")
    print("  all by less than 1e-6:", bool(apart[step].max() < 1e-6))

# %% [markdown]
# Both runs are right. **$N = 2$ and $N = 4$ train apart**, slowly: each run rounds in
# its own way, and every step builds on the one before. So compare runs with a
# tolerance, and compare *replicas* bit for bit.

# %% [markdown] tags=["instructor"]
# ## What a message costs: 8 minutes
#
# Draw the line: time up, bytes to the right, and ask what the intercept is. Then ask
# how it looks with logarithmic axes: flat, a bend, a slope.

# %% [markdown]
# ## What a message costs
#
# Steps and bytes are two currencies. The usual exchange rate, for the time of a
# message, is a straight line:
#
# $$T = \alpha + \beta \cdot \text{bytes}.$$
#
# $\alpha$ is the **latency**, in seconds for each message. $1/\beta$ is the
# **bandwidth**, in bytes per second. For an all-reduce, add up the messages that must
# follow one another: $T = \alpha \cdot \text{messages} + \beta \cdot \text{bytes}$.
# That leaves out adding, and assumes that receiving costs nothing extra while a rank
# sends.

# %% [markdown]
# ## Exercise 2: fit the link
#
# Messages of `sizes` bytes took `seconds`. Write `fit(sizes, seconds)`, which returns
# the two numbers `alpha` and `beta`. A microsecond matters for a message of a few bytes
# and not for one of many megabytes. So take the line whose *relative* errors are
# smallest: with $e_i = (\alpha + \beta\, \text{size}_i - \text{seconds}_i) /
# \text{seconds}_i$, the sum of all $e_i^2$ is to be as small as possible.
#
# By hand first: 1,000 bytes take 30 µs and 101,000 bytes take 130 µs. What are alpha
# and beta?
#
# <!-- exercise: 10b-fit -->
#
# <details><summary>Hint 1: a question</summary>
#
# Ordinary least squares, as in lesson 6, takes the errors in seconds. The largest
# message is a million times as large as the smallest. Which messages will decide about
# alpha?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Divide the equation alpha + beta · size = seconds by seconds, for each message. It says
# then: alpha · (1 / seconds) + beta · (size / seconds) = 1. Ordinary least squares of
# this one is what you want.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `numpy.linalg.lstsq` wants an array with two columns, `1 / seconds` and `size /
# seconds`, and on the other side as many ones.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2, the fit: 15 minutes
#
# Expected: `numpy.polyfit` without weights, which gives a latency that may be negative.
# Then the weights of `polyfit` squared by mistake (they multiply the errors, not their
# squares). And the fit of logarithms, which is another line.


# %% exercise="10b-fit"
def fit(sizes: list[float], seconds: list[float]) -> tuple[float, float]:
    """alpha and beta of the line with the smallest sum of squared relative errors.

    Python's, NumPy's or torch's numbers will do, up to rounding.
    """
    ### BEGIN SOLUTION
    import numpy as np

    size, time = np.array(sizes, float), np.array(seconds, float)
    columns = np.column_stack([1 / time, size / time])
    alpha, beta = np.linalg.lstsq(columns, np.ones(len(time)), rcond=None)[0]
    return alpha, beta
    ### END SOLUTION


# %%
check("10b-fit", fit)

# %% [markdown] tags=["why"]
# <!-- why: 10b-fit -->
# Why it works: the error of an equation that was divided by `seconds` is the relative
# error. Each message now counts for its own percentage. In seconds, the noise of the
# largest message alone is larger than the whole time of the smallest, and alpha, which
# only small messages know, would be whatever that noise leaves over.
#
# By hand: 100,000 bytes more take 100 µs more, so beta is 1 ns, and alpha 29 µs.

# %% [markdown]
# ## This machine's link
#
# Two ranks send messages of nine sizes there and back, twelve rounds; half of a round
# trip is one message. A busy machine only ever adds time, so we take the lower quartile
# of the rounds. We fit eight sizes and keep the ninth, 1,048,576 bytes, for later.
#
# For the intervals, rounds are redrawn at random 200 times; nine out of ten fits lie
# inside. The next run may lie outside.

# %%
from parallel_by_hand.collectives import link_cost

timed = run_ranks(link_cost.time_messages, link_cost.LINK_SIZES)[0]
unseen = link_cost.typical_seconds(timed.pop(2**20))
link = link_cost.fit_with_intervals(timed)
print(link_cost.describe_link(link))

# %% [markdown]
# Look at the two numbers and predict: how long does a message of 1,048,576 bytes take?

# %%
guess("10b-unseen", None, "How long do 1,048,576 bytes take?", "ms")

# %%
from lessons.props.all_reduce_and_its_cost import draw_link

reveal("10b-unseen", 1e3 * unseen)
print(f"the line says {1e3 * (link['alpha'] + link['beta'] * 2**20):.3g} ms")
typical = {size: link_cost.typical_seconds(timed[size]) for size in timed}
draw_link(typical, link, (2**20, unseen))

# %% [markdown]
# **On a quiet machine, two numbers predict a size that the fit has not seen.** At the
# left the line is flat: there only the number of messages counts. At the right only the
# bytes count.

# %% [markdown]
# Do they predict an all-reduce, too? Between two ranks a ring takes two messages of
# $S/2$, so $2\alpha + \beta S$. `time_beside_library` times our ring and torch's
# `dist.all_reduce` in turn, seven rounds, and returns the medians.

# %%
from parallel_by_hand.collectives.all_reduce_four_ways import time_beside_library

for size in (16_000, 16_000_000):
    line = 1e3 * (2 * link["alpha"] + link["beta"] * size)
    ours, library = (1e3 * t for t in run_ranks(time_beside_library, size // 4, 7)[0])
    measured = f"ours {ours:.2f} ms, torch's {library:.2f} ms"
    print(f"{size:,} bytes: predicted {line:.2f} ms, {measured}")

# %% [markdown]
# On our two cores both took two to six times as long as predicted. The line was fitted
# to one message at a time. In an all-reduce, messages in both directions share the
# cores, ranks wait for each other, and adding takes time. So **read $T$ as an order of
# magnitude**, and use it to compare ways.

# %% [markdown] tags=["instructor"]
# ## Tree against ring: 7 minutes
#
# Set the two times equal on the board, for four ranks. The class solves for S. Then ask
# for two and three ranks: there is no solution, and why is worth a minute.
#
# When late: show the figure.

# %% [markdown]
# ## Tree against ring
#
# Four ranks, a tensor of $S$ bytes:
#
# | | messages | bytes | time |
# |---|---|---|---|
# | tree | 4 | $4S$ | $4\alpha + 4\beta S$ |
# | ring | 6 | $6 \cdot S/4$ | $6\alpha + 1.5\beta S$ |
#
# For a short tensor the tree is faster, for a long one the ring. The paced link has
# $\alpha$ = 20 ms and 25 MB/s, so $\beta$ = 40 ns. At which size do both take equally
# long?

# %%
guess("10b-crossover", None, "From which size on is the ring faster?", "KB")

# %%
from lessons.props.all_reduce_and_its_cost import draw_crossover
from parallel_by_hand.collectives.all_reduce_four_ways import (
    found_crossover,
    time_over_paced_link,
)

ways, pace = ["tree", "ring"], (0.02, 40e-9)
sizes = [100_000, 200_000, 400_000, 800_000, 1_600_000]
times = run_ranks(time_over_paced_link, ways, sizes, *pace, world_size=4)[0]
tree, around = ([times[way, size] for size in sizes] for way in ways)
reveal("10b-crossover", found_crossover(sizes, tree, around) / 1e3, simulated=True)
draw_crossover(times, *pace)

# %% [markdown]
# $2\alpha = 2.5\beta S$, so $S = 0.8\,\alpha/\beta$ = 400 KB. **Below the crossover the
# tree is faster, above it the ring.** The points lie above the lines, most of all the
# ring's: waking up takes time too, and a ring wakes up more often.

# %% [markdown]
# ## Exercise 3: choose
#
# Write `fastest(size, ranks, alpha, beta)`. It returns `"root"`, `"tree"` or `"ring"`,
# whichever takes the least time to all-reduce `size` bytes over `ranks` ranks. The
# messages in a row are $2(N-1)$, $2\lceil \log_2 N \rceil$ and $2(N-1)$, of $S$, $S$
# and $S/N$ bytes.
#
# By hand first, for $\alpha$ = 50 µs and $\beta$ = 1 ns, so $\alpha/\beta$ is 50 KB: 1
# MB on 2 ranks; 30 KB on 4; 100 KB on 4; 100 KB on 64; 1 MB on 64.
#
# <!-- exercise: 10b-choose -->
#
# <details><summary>Hint 1: a question</summary>
#
# What are the three times for two ranks? Which of them can never be larger than the
# others?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Compute all three times. Python finds the key with the smallest value in a dictionary
# by `min(times, key=times.get)`.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `levels = (ranks - 1).bit_length()` is the logarithm, rounded up. A tree takes
# `2 * levels * (alpha + beta * size)`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3, choose: 10 minutes
#
# Solution of the five: ring, tree, ring, tree, ring. Have pairs argue about the fourth:
# the same 100 KB as before, and now the tree. Steps grow with N on a ring.
#
# Expected: the logarithm rounded down, S for S/N, and "root" for few ranks.


# %% exercise="10b-choose"
def fastest(size: float, ranks: int, alpha: float, beta: float) -> str:
    """The way with the smallest time: "root", "tree" or "ring"."""
    ### BEGIN SOLUTION
    levels = (ranks - 1).bit_length()
    times = {
        "root": 2 * (ranks - 1) * (alpha + beta * size),
        "tree": 2 * levels * (alpha + beta * size),
        "ring": 2 * (ranks - 1) * (alpha + beta * size / ranks),
    }
    return min(times, key=times.get)
    ### END SOLUTION


# %%
check("10b-choose", fastest)

# %% [markdown] tags=["why"]
# <!-- why: 10b-choose -->
# Why it works: it computes what each way costs and takes the cheapest. With two or
# three ranks, tree and ring take equally many steps, and the ring's are shorter: the
# tree never wins. With many ranks the ring's 2(N − 1) steps weigh more, and the size
# from which on it wins grows about as N / log N. The root never wins: it takes at least
# as many steps as the tree, with messages as long. NCCL makes this choice at each call,
# with its own tables.
#
# By hand: ring, tree, ring, tree, ring.

# %% [markdown] tags=["instructor"]
# ## Sixteen GPUs, and the library: 5 minutes
#
# The residuals are the point: a model that is right at both ends and wrong by a factor
# of two or more between them. Ask what the library might be doing there.
#
# When late: leave it to the reader.

# %% [markdown]
# ## Sixteen GPUs
#
# Does the same line hold for a real cluster? NVIDIA's program `nccl-tests` times
# all-reduces. It also prints the *bus bandwidth*: bytes per second times $2(N-1)/N$,
# what each link would carry in a ring. The documentation of dstack publishes a table
# for two machines with eight H100 each. We fit $\alpha$ and $\beta$ to all 31 sizes and
# draw the **residuals**, here published time divided by fitted time.

# %%
from lessons.props.all_reduce_and_its_cost import draw_residuals

carried, seconds, fitted = link_cost.gpu_link()
ratios = [time / line for time, line in zip(seconds, fitted, strict=True)]
print(f"largest ratio {max(ratios):.2f}, smallest {min(ratios):.2f}")
print(f"bus bandwidth at the right end: {carried[-1] / seconds[-1] / 1e9:.0f} GB/s")
draw_residuals(carried, seconds, fitted)

# %% [markdown]
# At both ends the line is off by a fifth or less, except at the first point. Between
# 200 KB and 200 MB the GPUs take longer than the line, up to 2.5 times. Noise has no
# shape; residuals with one hint that the model is wrong. **NCCL is not one straight
# line.** As the size grows, it can change between ring and tree, and how it packs
# messages. So fit the range in which you will predict.

# %% [markdown]
# And 467 GB/s is more than a ring could do. In a ring each machine sends the other as
# much as a GPU sends its neighbour: over eight cards of 400 Gb/s, such as these
# machines have, 400 GB/s at most. Within a machine NCCL's ring gets about 370 of
# NVLink's 450 GB/s (nccl-tests, issue 212). **So this is no ring.** Most likely the
# switches between a machine's GPUs do the adding (NVLink SHARP; NCCL calls it
# `NVLSTree`): a GPU sends and gets little more than $S$ bytes, and each machine sends
# the other $S$ instead of $1.9 \, S$. Bus bandwidth counts as if there were a ring,
# whatever has really run.

# %% [markdown]
# ## The library's call
#
# `dist.all_reduce(tensor)` does all this. With gloo on the CPU it goes round a ring
# too. Ours is a page of Python, and yet 16 MB took about as long above: nearly all the
# time is spent in moving and adding bytes, which compiled code does in both.
#
# | library | all-reduce | what chooses the way |
# |---|---|---|
# | NCCL, for GPUs | `ncclAllReduce` | itself, ring or tree among others; `NCCL_ALGO` overrides |
# | gloo, for CPUs | `gloo::allreduce` | a ring by default |
# | MPI | `MPI_Allreduce` | the implementation, by size and number of ranks |
# | torch | `dist.all_reduce` | the library that runs the group |

# %% [markdown]
# ## What we saw
#
# * From three ranks on the ways round differently; each gives all ranks the same bits.
# * $T = \alpha \cdot \text{messages} + \beta \cdot \text{bytes}$: two measured numbers
#   predict a message on a quiet machine, and the crossover of tree and ring on the
#   paced link. A real all-reduce takes longer.
# * The residuals of GPUs have a shape: no single line describes the library.

# %% [markdown]
# **The scorecard** of an all-reduce round a ring:
#
# | | |
# |---|---|
# | equal to one process | up to rounding; replicas equal bit for bit |
# | bytes each rank sends per step | $2(N-1)/N \cdot S$ |
# | memory of each rank | its tensor, and a buffer of $S/N$ |
# | idle share | none, if all start together; otherwise all wait for the slowest |
# | if one rank dies | the sum is lost to some or all: its neighbours get an error, or all wait |

# %% [markdown]
# In a terminal, `python demos/collectives/all_reduce_four_ways.py --help` prints the
# bill for any number of ranks and any size, and `python demos/collectives/link_cost.py
# --help` measures the link.
#
# ## Next
#
# Now we can sum gradients and say what it costs. Lesson 11a puts it into training, and
# 11b asks when each gradient should travel, and together with which others.
