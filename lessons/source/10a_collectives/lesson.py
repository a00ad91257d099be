# ---
# title: 10a Collectives
# question: Eight operations carry most traffic of parallel training. Who gets what, and who sends it?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 10a. Collectives: the eight operations
#
# In lesson 9 the ranks added up their gradients with one line, `dist.all_reduce`. What
# did each rank send, and to which others?
#
# Eight such operations carry most traffic of parallel training. We draw all eight,
# write them from single messages, and count every byte.
#
# *You will be able to* choose the operation that gives each rank what it needs, write
# it yourself without a deadlock, and check what a library really sends.
#
# *Before this:* lesson 9. *Time:* {reading} minutes to read, 55 for the exercises. *Needs:*
# two CPU cores, no GPU. With four GPUs the same cells use them; this is untested.

# %% [markdown] tags=["instructor"]
# ## A message, and a meter: 5 minutes
#
# Four people stand in front, each with a note on which 1, 10, 100 or 1000 is written.
# They keep the notes for the whole lesson: every operation can be acted out.
#
# Ask what `recv` needs to know before the message arrives: from whom, and how much. The
# tensor that it is given is the room for it.

# %% [markdown]
# ## A message, and a meter
#
# Two calls carry everything. One rank calls `dist.send(tensor, to)`; another calls
# `dist.recv(room, of)`, which fills a tensor of the right size. Such a message is
# called **point-to-point**. Rank 1 sends its number to rank 0:


# %%
import torch.distributed as dist


def pass_on(tensor) -> None:
    if dist.get_rank() == 1:
        dist.send(tensor, 0)
    else:
        dist.recv(tensor, 1)


# %% [markdown]
# Rank $r$ holds $10^r$. A `MessageMeter` counts the messages and bytes that its rank
# sends and receives.

# %%
import torch

from sidebyside import MessageMeter, device, run_ranks


def pass_on_metered() -> tuple[int, MessageMeter]:
    tensor = torch.tensor([10 ** dist.get_rank()], device=device())
    with MessageMeter() as meter:
        pass_on(tensor)
    return tensor.item(), meter


run_ranks(pass_on_metered, world_size=2)

# %% [markdown]
# Both hold 10 now: a message is a copy. The number has 64 bits, so the message has 8
# bytes. A *step* of the meter is a message, or several that were under way together.

# %% [markdown] tags=["instructor"]
# ## From one to all, from all to one: 8 minutes
#
# Act out broadcast and scatter with the four notes, then both ways back. Ask for the
# bytes before the table: everyone sees that scatter sends less, few say how much.
#
# When late: skip what reduce leaves behind.

# %% [markdown]
# ## From one to all
#
# An operation that all ranks call together is a **collective**. The simplest is
# *broadcast*: one rank, the *root*, gives its tensor to all. In *scatter* the root has
# one piece for each rank:

# %%
from parallel_by_hand.collectives import eight_collectives
from sidebyside import show

show(eight_collectives.broadcast)
show(eight_collectives.scatter)

# %% [markdown]
# `other_ranks()` lists all ranks but this one. Names and arguments are those of torch.
# We run torch's own, on data that labels itself: piece $c$ of rank $r$ is
# $(c+1) \cdot 10^r$. So 300 is piece 2 of rank 2.

# %%
from parallel_by_hand.collectives.collective_drawing import draw_collectives
from parallel_by_hand.collectives.who_holds_what import run_collectives

draw_collectives(run_collectives(["broadcast", "scatter"], dist))

# %% [markdown]
# A row is a rank, a column a piece, a colour the rank that a number comes from, and
# black a sum. The right half shows only what the call has written.
#
# ## From all to one
#
# Both have a way back. *Gather* collects the pieces at the root. *Reduce* also adds
# them up on arrival, so that the root needs one piece of room beside its own. Here each
# rank has a single piece; in gather it stands in the column of its rank.

# %%
show(eight_collectives.gather)
show(eight_collectives.reduce)
draw_collectives(run_collectives(["gather", "reduce"], dist))

# %% [markdown]
# Each digit of 1111 says that one rank has been counted, once. After a reduce only the
# root's tensor is defined, hence the question marks. What do the others hold?


# %%
def tensor_after_reduce() -> int:
    tensor = torch.tensor([10 ** dist.get_rank()], device=device())
    dist.reduce(tensor, dst=0)
    return tensor.item()


run_ranks(tensor_after_reduce, world_size=4)

# %% [markdown]
# Gloo, torch's library for CPUs, leaves partial sums behind: rank 3 gave its number to
# rank 2, which added its own and passed 1100 on. Another library leaves something else.
# **After a reduce, use the root's tensor only.**

# %% [markdown] tags=["instructor"]
# ## Everyone gets the sum: 5 minutes
#
# Let the class say it: reduce, then broadcast. Count at the board what passes rank 0's
# door, in and out, for 4 ranks; then guess for 8.

# %% [markdown]
# ## Everyone gets the sum
#
# Training needs the sum of all gradients on *every* rank: **all-reduce**. With what we
# have, two lines do it:

# %%
show(eight_collectives.all_reduce)

# %% [markdown]
# Eight ranks call it, each with a tensor of one million bytes.

# %%
from sidebyside import forget, guess, hint, progress, solution

question = "How many million bytes does rank 0 send and receive, together?"
guess("10a-root", None, question, "million")

# %%
from sidebyside import consecutive_steps, reveal

for ranks in 2, 4, 8:
    runs = run_collectives(["all_reduce"], eight_collectives, ranks, 125_000 // ranks)
    meters = runs["all_reduce"].meters
    sent = [meter.bytes_sent for meter in meters]
    print(f"{ranks} ranks: rank 0 sent {sent[0]:,}, rank 1 {sent[1]:,}", end="; ")
    print(f"{consecutive_steps(meters)} steps one after another")
reveal("10a-root", (meters[0].bytes_sent + meters[0].bytes_received) / 1e6)

# %% [markdown]
# **By way of the root, rank 0 sends $N - 1$ tensors and receives as many; each other
# rank sends one.** The steps are those of all ranks together, if a rank can send one
# message and receive one at a time: $2(N - 1)$. With 400 ranks, 399 wait for one.

# %% [markdown] tags=["instructor"]
# ## Everyone at once: 20 minutes
#
# Two people, each with a note for the other, each told: "hand over your note, and do
# not take anything before it has been taken." They stand there. Then let the class find
# the cures: one takes first, or a table to lay the notes on.
#
# Exercise 1 takes 10 of these minutes. Common: adding into `pieces`, forgetting one's
# own piece, sending all pieces to everyone and picking out one.
#
# When late: skip the timeline.

# %% [markdown]
# ## Everyone at once
#
# No rank should do all the talking, so all send at once. Two ranks swap their
# numbers. **Before you run it:** where is each of them after two seconds?


# %% tags=["raises-exception"]
def swap_by_sending_first() -> int:
    other = 1 - dist.get_rank()
    mine = torch.tensor([10 ** dist.get_rank()], device=device())
    arrived = torch.empty_like(mine)
    dist.send(mine, other)
    dist.recv(arrived, other)
    return arrived.item()


run_ranks(swap_by_sending_first, world_size=2, timeout=2)

# %% [markdown]
# With gloo a blocking `send` returns when the other rank has received, so neither rank
# comes to its `recv`. **With gloo, two ranks that both send first wait until the time
# limit**, in torch 30 minutes unless changed: the deadlock of lesson 4.
#
# There are two cures. Let one of the two receive first. Or do not wait: `isend` starts
# the message and returns at once, with a request. With gloo its `wait()` returns when
# the message is through. With NCCL only the GPU's stream waits, and Python goes on at
# once.


# %%
def swap() -> int:
    other = 1 - dist.get_rank()
    mine = torch.tensor([10 ** dist.get_rank()], device=device())
    arrived = torch.empty_like(mine)
    sending, receiving = dist.isend(mine, other), dist.irecv(arrived, other)
    receiving.wait()  # before this, `arrived` must not be read
    sending.wait()  # before this, `mine` must not be changed
    return arrived.item()


run_ranks(swap, world_size=2)

# %% [markdown]
# **With gloo a message whose request is thrown away may never arrive**: a line that
# only says `dist.isend(mine, other)` is a mistake.
#
# `isend` and `irecv` are **asynchronous**: the call returns before the work is done.
# Between the call and `wait()` a rank can compute. Here rank 1 computes, by sleeping,
# for 0.2 seconds before it receives.

# %%
from time import sleep

from sidebyside import span


def hand_over(send) -> None:
    tensor = torch.ones(1, device=device())
    if dist.get_rank() == 0:
        with span("wait"):
            request = send(tensor, 1)  # dist.send returns None, dist.isend a request
        with span("compute"):
            sleep(0.2)
        with span("wait"):
            if request is not None:
                request.wait()
    else:
        with span("compute"):
            sleep(0.2)
        with span("wait"):
            dist.recv(tensor, 0)


# %%
from sidebyside import Timeline, draw_timelines

with Timeline() as blocking:
    run_ranks(hand_over, dist.send)
with Timeline() as asynchronous:
    run_ranks(hand_over, dist.isend)
draw_timelines({"send": blocking, "isend": asynchronous}, stamp="simulated")

# %% [markdown]
# With `send`, rank 0 waits and computes afterwards; with `isend` both compute at the
# same time.
#
# The GPUs' library must be told about all messages at once. `batch_isend_irecv` does
# that, in a function that the next collective uses:

# %%
from parallel_by_hand.collectives.eight_collectives import exchange

show(exchange)
show(eight_collectives.all_gather)
draw_collectives(run_collectives(["all_gather", "reduce_scatter"], dist))

# %% [markdown]
# In **all-gather** every rank gets every piece: each rank sends its own $N - 1$ times.
# In **reduce-scatter**, beside it, the columns are added up, and rank $r$ gets the sum of
# column $r$ only. Neither has a root.

# %% [markdown]
# ## Exercise 1: reduce-scatter, judged by the meter
#
# Write `reduce_scatter(tensor, pieces)`. `pieces` is a list with one piece for each
# rank. Afterwards `tensor` on rank $r$ is the sum of what all ranks have at
# `pieces[r]`.
#
# The meter is the judge: each rank sends each other rank one message, the piece that is
# meant for it. Call no collective of torch.
#
# By hand first: three ranks, rank $r$ has the pieces $1 \cdot 10^r$, $2 \cdot 10^r$, $3
# \cdot 10^r$. What does rank 1 get, from which ranks, and what does it send?
#
# <!-- exercise: 10a-reduce-scatter -->
#
# <details><summary>Hint 1: a question</summary>
#
# Forget the others for a moment. What must reach rank 2, if rank 2 is to know the sum
# of column 2? Which ranks have that?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Every rank sends `pieces[r]` to each other rank r. For what arrives it needs one empty
# tensor for each sender, all of the shape of `tensor`. Its own piece does not travel.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `arrived` is a dictionary with room like `tensor` for each other rank, and a second
# one says what goes to each. `exchange(outgoing, arrived)` swaps them all. Then put
# your own piece into `tensor`, with `copy_`, and add all that has arrived.
#
# </details>

# %% [markdown] tags=["instructor"]
# Minutes: 10. For those who are done early: how much room does it need besides the
# arguments? Could it be one piece, whatever N is? Yes: receive and add one after the
# other.


# %% exercise="10a-reduce-scatter"
def reduce_scatter(tensor: torch.Tensor, pieces: list[torch.Tensor]) -> None:
    """Set `tensor` on rank r, in place, to the sum of all ranks' `pieces[r]`."""
    ### BEGIN SOLUTION
    rank = dist.get_rank()
    others = [r for r in range(dist.get_world_size()) if r != rank]
    arrived = {r: torch.empty_like(tensor) for r in others}
    exchange({r: pieces[r] for r in others}, arrived)
    tensor.copy_(pieces[rank])
    for piece in arrived.values():
        tensor += piece
    ### END SOLUTION


# %%
from sidebyside import check

check("10a-reduce-scatter", reduce_scatter)

# %% [markdown] tags=["why"]
# <!-- why: 10a-reduce-scatter -->
# Why it works: each rank is the root of one column. All N reduces happen at the same
# time, and each rank sends N − 1 of its N pieces, however many ranks there are. Its
# own piece comes first, by `copy_`, so nothing remains of what `tensor` held. All messages
# start before any rank waits, so there is no deadlock. The price is room for N − 1
# pieces.

# %% [markdown] tags=["instructor"]
# ## All-to-all: 18 minutes
#
# Ask what the picture is called in mathematics (the transpose). Then the puzzle: four
# people, six handshakes, each handshake needs both; a rule that every one of them can
# follow alone, without talking. Let two pairs act out a rule that stands still.
#
# Exercise 2 takes 15 of these minutes. Common: everybody sends first; "even ranks send
# first", which fails as soon as two even ranks meet.

# %% [markdown]
# ## All-to-all
#
# Every rank has a piece for every rank, and nothing is added: **all-to-all**. What was
# a row before is a column afterwards.

# %%
draw_collectives(run_collectives(["all_to_all"], dist))

# %% [markdown]
# With `exchange` it is short. With sends that wait it is a puzzle.

# %% [markdown]
# ## Exercise 2: all-to-all without a deadlock
#
# Write `all_to_all(received, pieces)`: `pieces[r]` goes to rank $r$, which finds it in
# its `received`, at the sender's index. `received` holds tensors of the right shapes,
# to be filled in place.
#
# Use only `dist.send` and `dist.recv`, which wait. Each rank sends one message to each
# other rank and copies its own piece. The number of ranks may be odd or even.
#
# By hand first: three ranks. Write down for each rank its sends and receives in order,
# so that all get through.
#
# <!-- exercise: 10a-all-to-all -->
#
# <details><summary>Hint 1: a question</summary>
#
# Two ranks want to swap. Which of them sends first? Find a rule that both can apply to
# their two numbers, so that they never disagree.
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# In each pair the lower rank sends first. Now all pairs need an order in which no
# circle of ranks can wait for each other. What if every rank goes through its partners
# in the same way, from rank 0 up?
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# For each `other` from 0 to N − 1: if `rank < other`, send and then receive; if
# `rank > other`, receive and then send; if they are equal, copy.
#
# </details>

# %% [markdown] tags=["instructor"]
# Minutes: 15. For those who are done early: in whose order do several pairs swap at the
# same time? `consecutive_steps(meters)` counts it for four ranks: 10 by the rule of
# hint 3, 8 by the tournament in the answer, 6 at best (three rounds of two swaps).


# %% exercise="10a-all-to-all"
def all_to_all(received: list[torch.Tensor], pieces: list[torch.Tensor]) -> None:
    """Send `pieces[r]` to each rank r; what rank r has sent arrives in `received[r]`."""
    ### BEGIN SOLUTION
    rank = dist.get_rank()
    for other in range(dist.get_world_size()):
        if rank < other:
            dist.send(pieces[other], other)
            dist.recv(received[other], other)
        elif rank > other:
            dist.recv(received[other], other)
            dist.send(pieces[other], other)
        else:
            received[rank].copy_(pieces[rank])
    ### END SOLUTION


# %%
check("10a-all-to-all", all_to_all)

# %% [markdown] tags=["why"]
# <!-- why: 10a-all-to-all -->
# Why it works: list all pairs, (0, 1), (0, 2), (0, 3), (1, 2) and so on. Each rank
# comes to its own pairs in the order of this list. Take the first pair in the list that
# is not done. Both of its ranks have done all their earlier pairs, so both have come to
# it, one sends and one receives, and it gets done. So there is never a standstill.
#
# It works from any side: "even ranks send first" fails because two even ranks meet. For
# speed, let several pairs swap at the same time: in round k, rank r swaps with
# (k − r) mod N. That is how a tournament is planned.

# %% [markdown] tags=["instructor"]
# ## All eight, and the libraries: 6 minutes
#
# The picture is the page to print. Ask for the two that give all-reduce when done one
# after the other (reduce-scatter, all-gather), before lesson 10b says it.
#
# When late: skip the table of names.

# %% [markdown]
# ## All eight, ours and torch's
#
# Here are the eight together, run by torch. Ours give the same result everywhere, and
# the meter says what each rank sent, in pieces.

# %%
from parallel_by_hand.collectives.who_holds_what import EIGHT

torchs, ours = run_collectives(EIGHT, dist), run_collectives(EIGHT, eight_collectives)
for name in EIGHT:
    pieces = [meter.bytes_sent // 8 for meter in ours[name].meters]
    print(f"{name:<15} equal: {ours[name].after == torchs[name].after}", end="  ")
    print(f"pieces sent: {pieces}")
draw_collectives(torchs)

# %% [markdown]
# **Ours and torch's leave the same wherever the result is defined, all eight.** No rank
# sends more than three pieces, except in our all-reduce: there rank 0 sends twelve, and
# the others four. This is how they are called, on every rank:
#
# ```python
# dist.broadcast(tensor, src=0)
# dist.scatter(tensor, pieces if rank == 0 else None, src=0)
# dist.gather(tensor, pieces if rank == 0 else None, dst=0)
# dist.reduce(tensor, dst=0)
# dist.all_gather(pieces, tensor)
# dist.reduce_scatter(tensor, pieces)
# dist.all_reduce(tensor)
# dist.all_to_all(received, pieces)
# ```
#
# ## What does a library send?
#
# Our meter sees our messages, not those inside a library. The system does: ranks on one
# machine talk through its loopback interface, whose bytes are counted. Four ranks do a
# reduce-scatter of 16 MB. Ours sends three pieces of 4 MB. And gloo's?

# %%
from parallel_by_hand.collectives.loopback_meter import megabytes_per_rank


def megabytes_of_reduce_scatter(library) -> float:
    pieces = list(torch.ones(4_000_000, device=device()).chunk(dist.get_world_size()))
    room = torch.empty_like(pieces[0])
    return megabytes_per_rank(lambda: library.reduce_scatter(room, pieces))


sent = [
    run_ranks(megabytes_of_reduce_scatter, library, world_size=4)[0]
    for library in (eight_collectives, dist)
]
print(
    f"ours {sent[0]:.1f} MB, gloo {sent[1]:.1f} MB, or {sent[1] / 16:.2f} × the tensor"
)

# %% [markdown]
# Twice what is needed: 1.5 tensors from each rank. **Gloo's reduce-scatter is a whole
# all-reduce**, of which each rank keeps a quarter. Its all-gather sends 0.75, as ours
# does. The results are equal; only the bytes tell. Those between GPUs take other routes
# and are not counted here.
#
# ## The same interface everywhere
#
# | here and in torch | MPI, since 1994 | NCCL, for NVIDIA's GPUs | gloo, for CPUs | JAX |
# |---|---|---|---|---|
# | `broadcast` | `MPI_Bcast` | `ncclBroadcast` | `broadcast` | `pbroadcast` |
# | `scatter`, `gather` | `MPI_Scatter`, `MPI_Gather` | `ncclScatter`, `ncclGather` | `scatter`, `gather` | – |
# | `reduce` | `MPI_Reduce` | `ncclReduce` | `reduce` | – |
# | `all_reduce` | `MPI_Allreduce` | `ncclAllReduce` | `allreduce` | `psum` |
# | `all_gather` | `MPI_Allgather` | `ncclAllGather` | `allgather` | `all_gather` |
# | `reduce_scatter` | `MPI_Reduce_scatter` | `ncclReduceScatter` | torch calls `allreduce` | `psum_scatter` |
# | `all_to_all` | `MPI_Alltoall` | `ncclAlltoAll` | `alltoall` | `all_to_all` |
# | `isend`, `irecv` | `MPI_Isend`, `MPI_Irecv` | `ncclSend`, `ncclRecv` in a group | `send`, `recv` of a buffer | `ppermute` |
#
# Torch hands a call to its *backend*: NCCL, gloo or MPI, whichever `init_process_group`
# named. torchcomms, from 2025, is a newer interface to such backends, still
# experimental.
#
# Real programs pass one large tensor, and torch cuts it: `all_gather_single(output,
# input)`, `reduce_scatter_single`, `all_to_all_single`. Older programs call the first
# two `all_gather_into_tensor` and `reduce_scatter_tensor`. **Torch 2.13 still has the
# old names, and warns.**

# %% [markdown] tags=["instructor"]
# ## Some of the ranks: 4 minutes
#
# Two by two on the floor: rows add first, then columns. Ask how many groups rank 0
# makes (four) and in how many it is (two).

# %% [markdown]
# ## Some of the ranks
#
# A collective need not include all ranks. `dist.new_group` makes a **process group** of
# some. By default all ranks must call it, in the same order, even those outside the
# group; with `use_local_synchronization=True` only its members do. Only members call
# the group's collectives.
#
# Four ranks stand in a square, 0 and 1 above 2 and 3. First the rows add up, then the
# columns. Which number does rank 0 hold after both?

# %%
guess("10a-groups", None, "What does rank 0 hold after rows, then columns?")


# %%
def sums_in_rows_and_columns() -> list[int]:
    rank, sums = dist.get_rank(), []
    rows = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    columns = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    tensor = torch.tensor([10**rank], device=device())
    for group in rows[rank // 2], columns[rank % 2]:
        request = dist.all_reduce(tensor, group=group, async_op=True)
        request.wait()  # any collective can be asynchronous: compute, then wait
        sums.append(tensor.item())
    return sums


held = run_ranks(sums_in_rows_and_columns, world_size=4)
reveal("10a-groups", held[0][1], computed=True)
held

# %% [markdown]
# First the sums of a row, 11 or 1100; then 1111 everywhere. **Rows, then columns, give
# the sum of all.** If a row is one machine with fast wires, only the columns cross the
# slow network, with whole tensors. Libraries send less there: they reduce-scatter in
# the row, all-reduce each piece in its column, and all-gather in the row.

# %% [markdown] tags=["instructor"]
# ## A mixture of experts: 24 minutes
#
# Draw three desks (experts) and a pile of letters at each; every letter names the desk
# that has to answer it. The answers go back to where the letter came from, and into the
# order of the pile. What must a desk know before the letters arrive? How many.
#
# Exercise 3 takes 20 of these minutes. Common: the answers come back in the order of
# the experts; the counts of the way out are used for the way back.

# %% [markdown]
# ## There and back: a mixture of experts
#
# A **mixture of experts** is a part of many large language models: small networks, the
# *experts*, on different ranks. Here each *token*, a row of numbers for a piece of a
# word, visits one expert; in many models it visits two or more. Its numbers decide
# which. So each rank has rows for each rank, and no rank knows beforehand how many will
# come. That is an all-to-all of uneven pieces, out and back again.
#
# `all_to_all_single(room, rows, from_each, to_each)` can do that. In `rows` those for
# rank 0 come first, then those for rank 1, and so on; `to_each` says how many go to
# each rank. `room` is filled in the same way, with `from_each[r]` rows from rank $r$.


# %%
def send_uneven_rows() -> list[int]:
    rank = dist.get_rank()
    to_each = [3, 2] if rank == 0 else [1, 1]  # rank 0: three rows to 0, two to 1
    from_each = [3, 1] if rank == 0 else [2, 1]
    rows = torch.full((sum(to_each), 1), 10**rank, device=device())
    room = rows.new_empty((sum(from_each), 1))
    dist.all_to_all_single(room, rows, from_each, to_each)
    return room.flatten().tolist()


run_ranks(send_uneven_rows, world_size=2)

# %% [markdown]
# Here we knew `from_each`, because we had written both programs. A real rank knows how
# many rows it sends, and must be told how many will arrive.

# %% [markdown]
# ## Exercise 3: visit the experts
#
# Write `visit_experts(tokens, chosen, expert)`. On each rank, token $i$, a row of
# `tokens`, wants the expert of rank `chosen[i]`. `expert` is this rank's own: it gets
# rows and returns as many new ones, in their order.
#
# Return a new tensor whose row $i$ is the answer to token $i$. Each row travels only to
# the rank chosen for it, and each rank calls `expert` once. Call no collectives but
# all-to-alls.
#
# By hand first: rank 0 has the tokens a, b, c with `chosen` 1, 0, 1; rank 1 has d, with
# 0. Which rows does each expert see? What travels back?
#
# <!-- exercise: 10a-experts -->
#
# <details><summary>Hint 1: a question</summary>
#
# `all_to_all_single` wants the rows for rank 0 first. Which order of your tokens is
# that? And how will you find the old order again?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Three all-to-alls: first the numbers of rows, one number for each rank; then the rows;
# then the answers. On the way back, what was sent is received, so the two lists change
# places.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `order = torch.argsort(chosen)` and `tokens[order]` bring the rows together;
# `torch.bincount(chosen, minlength=ranks)` counts them. If `back` holds the answers in
# that order, `answers[order] = back` puts them into the old one.
#
# </details>

# %% [markdown] tags=["instructor"]
# Minutes: 20, or homework. Let people print `order` for the case by hand.


# %% exercise="10a-experts"
def visit_experts(tokens: torch.Tensor, chosen: torch.Tensor, expert) -> torch.Tensor:
    """Row i of the result is what the expert of rank `chosen[i]` says to token i."""
    ### BEGIN SOLUTION
    order = torch.argsort(chosen)
    to_each = torch.bincount(chosen, minlength=dist.get_world_size())
    from_each = torch.empty_like(to_each)
    dist.all_to_all_single(from_each, to_each)
    out, back = to_each.tolist(), from_each.tolist()
    visitors = tokens.new_empty(sum(back), *tokens.shape[1:])
    dist.all_to_all_single(visitors, tokens[order], back, out)
    returned = torch.empty_like(tokens)
    dist.all_to_all_single(returned, expert(visitors), out, back)
    answers = torch.empty_like(tokens)
    answers[order] = returned
    return answers
    ### END SOLUTION


# %%
check("10a-experts", visit_experts)

# %% [markdown] tags=["why"]
# <!-- why: 10a-experts -->
# Why it works: the first all-to-all sends one number to each rank, and so each rank
# learns how much room to make. After the second, each expert has its rows, in the order
# of the ranks they come from. The third is the second one turned round, with the two
# lists exchanged, and brings each answer to the place that its token had in
# `tokens[order]`. Writing to `answers[order]` undoes the sorting.
#
# If all tokens choose one expert, one rank has all the work. That is why many mixtures of
# experts add a term to the loss that spreads the tokens.

# %% [markdown]
# ## What we saw
#
# * With gloo, two ranks that both send first wait for each other. Starting everything
#   before waiting cures that, and so does one order of pairs for all ranks.
# * Eight operations: from one (broadcast, scatter), to one (gather, reduce), and
#   between all (all-gather, reduce-scatter, all-reduce, all-to-all).
# * Process groups limit a collective to some ranks; all-to-all with uneven pieces takes
#   tokens to their experts and back.
#
# In a terminal, `python demos/collectives/collectives.py --help` draws any of the
# eight, of any size, for one to eight ranks.
#
# ## Next
#
# Look at the picture of all eight again: reduce-scatter, and then all-gather, end where
# all-reduce ends. Lesson 10b follows that path: four ways to all-reduce, and what each
# costs.
