# ---
# title: 15b Pipeline parallel: memory and bubble
# question: A full pipeline keeps many activations. How does it keep fewer, and wait less?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 15b. Pipeline parallel: keep less, wait less
#
# In 15a GPipe kept four devices busy. While it fills the pipeline, it also piles up
# activations. Here we count what each rank keeps, and make room in two ways: compute
# activations a second time, or go back earlier.
#
# Then we attack the bubble itself: with thinner stages, and with a backward that is
# cut in two.
#
# *You will be able to* say what a schedule keeps before you run it, write 1F1B, and
# fill a pipeline's gaps with work that can wait.
#
# *Before this:* lesson 15a. *Time:* {reading} minutes to read, 30 for the exercises.
# *Needs:* two CPU cores, no GPU.

# %% [markdown]
# ## Words from earlier lessons
#
# | | |
# |---|---|
# | rank, world size | one of several processes and its number; how many there are |
# | stage | the neighbouring layers that live on one rank; there are $p$ stages |
# | micro-batch | one of the $m$ equal parts of a batch |
# | F2, B2 | forward, backward of micro-batch 2 through a rank's stage |
# | schedule | one list of such instructions for each rank |
# | GPipe | the schedule with all forwards first, then all backwards |
# | bubble | the idle share of the picture: $(p-1)/(m+p-1)$ for GPipe |

# %% [markdown] tags=["instructor"]
# ## What is kept, and computed again: 13 minutes
#
# Ask for the product on the board: tensors × samples × numbers × bytes. Then cut the
# batch finer and ask again; the product stays.
#
# Recomputation: ask what a rank must keep at least. Its input, or it could not start
# again.
#
# When late: skip `Recompute`'s code, keep the table.

# %% [markdown]
# ## What has to be kept
#
# A backward needs the **activations** of its forward. Until then the rank must keep
# them. How many bytes is that?

# %% [markdown]
# The network of 15a has eight layers, each a linear layer and a tanh, 64 wide, on four
# ranks. So a stage has two layers. Autograd keeps the input of the stage and the
# outputs of both tanhs: three tensors. With 64 samples of 64 numbers of 4 bytes that is
# 3 × 16,384 = 49,152 bytes. Here is what a meter in rank 0 says:

# %%
from parallel_by_hand.pipeline.measured_step import step_through_pipeline
from parallel_by_hand.pipeline.schedules import gpipe
from sidebyside import run_ranks

run_ranks(step_through_pipeline, gpipe(4, 4), world_size=4)[0]["activations"]

# %% [markdown]
# If the batch is cut more and more finely:


# %%


def bytes_kept(schedule, layers: int = 8, recompute: bool = False) -> list[int]:
    """The most bytes of activations that each of four real ranks kept at any time."""
    ranks = run_ranks(step_through_pipeline, schedule, layers, recompute, world_size=4)
    return [rank["activations"] for rank in ranks]


for m in 4, 8, 16:
    print(f"m = {m:2}  kept by rank 0: {bytes_kept(gpipe(4, m))[0]} bytes")

# %% [markdown]
# **If nothing is computed again, GPipe keeps the activations of the whole batch, however
# finely it is cut.** More micro-batches shrink the bubble, but they do not make room.

# %% [markdown]
# ## Compute it again
#
# **Activation recomputation** keeps only what entered the stage. When the gradient
# arrives, the stage runs its forward a second time and then has its activations, for
# one micro-batch only. `Recompute` does it: its `forward` runs without autograd, so
# nothing inside the stage is kept.

# %%
from parallel_by_hand.memory.recomputation import Recompute
from sidebyside import show

show(Recompute)

# %% [markdown]
# It pays off with more layers. We take 32, so eight on each rank: without
# recomputation nine tensors, 9 × 16,384 = 147,456 bytes.
#
# With it, what does rank 0 keep of the whole batch when all its forwards are done? What
# one micro-batch needs while it is computed again is counted apart.

# %%
from sidebyside import guess

question = "Bytes kept by rank 0 when all forwards are done?"
guess("15b-recompute", None, question, "bytes")

# %%
from sidebyside import reveal

for m in 4, 8, 16:
    plain = bytes_kept(gpipe(4, m), 32)[0]
    most = bytes_kept(gpipe(4, m), 32, True)[0]
    again = 8 * 16384 // m  # eight tensors of one micro-batch
    inputs = most - again
    print(f"m = {m:2}  {plain} bytes, recomputed {most}: {inputs} + {again}")
reveal("15b-recompute", inputs, computed=True)

# %% [markdown]
# 147,456 bytes have become 16,384, the stage's inputs, and eight tensors of one
# micro-batch. **With recomputation, finer cuts do make room.**

# %% [markdown]
# This costs one more forward for each micro-batch. If a backward costs two forwards, a
# step computes 4 instead of 3. A stage with dropout would draw other numbers the second
# time; torch's `checkpoint` prevents that, our `Recompute` does not.
#
# Is there a way that costs no time?

# %% [markdown] tags=["instructor"]
# ## The bench and 1F1B: 8 minutes
#
# The question that leads to 1F1B: "In GPipe with 8 micro-batches, rank 3 holds number 0
# from slot 4 to slot 11. What is it waiting for?" For nothing at all.
#
# When late: the exercise goes home, the picture of both schedules stays.

# %% [markdown]
# ## The bench
#
# Here is a bench to try any schedule on. `workbench` says whether it is legal and how
# many micro-batches each rank keeps, draws it, and runs it on real ranks that sleep.
# Change the lists and run the cell again, as often as you like.

# %%
from parallel_by_hand.pipeline.workbench import workbench

mine = [
    ["F0", "F1", "F2", "F3", "B0", "B1", "B2", "B3"],
    ["F0", "F1", "F2", "F3", "B0", "B1", "B2", "B3"],
]
workbench(mine)

# %% [markdown]
# ## Exercise 1: beat GPipe's memory
#
# The bench shows GPipe for two ranks and four micro-batches: ten slots, four
# micro-batches kept on each rank. Write a schedule by hand that also takes ten slots,
# and in which **no rank ever keeps more than two** micro-batches. It is one list per
# rank, like `mine`.
#
# By hand first: what is the least that rank 1 must keep?
#
# Stuck? `hint("15b-beat-gpipe")` gives one hint per call,
# `solution("15b-beat-gpipe")` the code and why it works.
#
# <!-- exercise: 15b-beat-gpipe -->
#
# <details><summary>Hint 1: a question</summary>
#
# In the picture of GPipe, rank 1 has finished F0 at time 2. What does it need for B0,
# and when does it have it?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Only a backward frees activations. So do each backward as soon as possible, before the
# next forward. Rank 1 can always do so. Rank 0 has to wait for a gradient: what can it
# do in the meantime, without keeping more than two?
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Rank 1 does F0, B0, F1, B1, and so on. Rank 0 runs one forward ahead and then takes
# turns too: F0, F1, B0, F2, …
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1, beat GPipe's memory: 10 minutes
#
# Give the bench ten quiet minutes. Most people find the answer for two ranks by
# trying, and discover the run ahead on the way.

# %% exercise="15b-beat-gpipe"
from sidebyside import forget, hint, progress, solution

beats_gpipe = ...
### BEGIN SOLUTION
beats_gpipe = [
    ["F0", "F1", "B0", "F2", "B1", "F3", "B2", "B3"],
    ["F0", "B0", "F1", "B1", "F2", "B2", "F3", "B3"],
]
### END SOLUTION

# %%
from sidebyside import check

check("15b-beat-gpipe", beats_gpipe)

# %% [markdown] tags=["why"]
# <!-- why: 15b-beat-gpipe -->
# Why it works: rank 1 is the last stage, so it can go back as soon as it has gone
# forward, and keeps one micro-batch. Rank 0 must wait two slots for its first gradient
# and fills one of them with F1. After that every backward makes room for one forward,
# so it never holds more than two. It is idle for two slots, as in GPipe.

# %% [markdown]
# ## One forward, one backward
#
# The idea is called **1F1B**. Each rank first runs ahead, by one forward for each stage
# that comes after it. Then it takes turns, one forward and one backward. At the end it
# does the remaining backwards.

# %%
from parallel_by_hand.pipeline.schedule_drawing import draw_schedule
from parallel_by_hand.pipeline.schedule_rules import timetable
from parallel_by_hand.pipeline.schedules import one_f_one_b

draw_schedule({"GPipe": timetable(gpipe(4, 8)), "1F1B": timetable(one_f_one_b(4, 8))})

# %% [markdown]
# Both end after 22 slots, and in both each rank waits for six. **1F1B has GPipe's
# bubble.** Only the order has changed: orange comes early. Now count again what is
# kept, in micro-batches by the plan and in bytes by real ranks:

# %%
from parallel_by_hand.pipeline.schedule_rules import peak_activations

for make in gpipe, one_f_one_b:
    print(f"{make.__name__:<11} micro-batches {peak_activations(make(4, 8))}")
    print(f"{'':<11} bytes         {bytes_kept(make(4, 8))}")

# %% [markdown]
# The bytes follow the plan: GPipe keeps 8 micro-batches everywhere, while 1F1B keeps 4,
# 3, 2 and 1. The last rank also keeps the targets for the loss.

# %% [markdown]
# **1F1B keeps at most as many micro-batches as there are stages**, and never more than
# $m$. Here rank 0 keeps four of eight, and would keep four of 80, which are smaller.

# %% [markdown]
# ## Flush or no flush
#
# 1F1B comes from PipeDream, where it never stops: the next batch enters while this one
# is still on its way back. After the start there is no bubble, if the stages are
# balanced. But weights change between a micro-batch's forward and its backward. So a
# rank keeps several versions of its weights, and gradients belong to older ones, as in
# lesson 12a.

# %% [markdown]
# What we run ends each batch with a **flush**: all backwards first, then one update.
# With a flush the gradients are those of the unsplit model, as in 15a; without one they
# are not.

# %% [markdown]
# ## Exercise 2: write 1F1B
#
# Write `one_forward_one_backward(stages, microbatches)`, a list of instructions for
# each rank. There may be fewer micro-batches than stages. It takes as long as GPipe,
# whether a backward takes as long as a forward or twice as long, and rank $r$ of $p$
# never keeps more than $p - r$ micro-batches.
#
# By hand first: three stages, four micro-batches. With how many forwards do rank 0 and
# rank 2 begin?
# <!-- exercise: 15b-1f1b -->
#
# <details><summary>Hint 1: a question</summary>
#
# Look at the picture of 1F1B for four stages. Each row begins with some forwards before
# its first backward. How many are there in each row?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# A row has three parts: forwards only, then pairs of one forward and one backward, then
# backwards only. If you know how long the first part is, the other two follow, because
# each number from 0 to m − 1 occurs once as F and once as B.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Rank r runs `ahead = min(stages - 1 - r, microbatches)` forwards first. Then come
# pairs of the next forward and the next backward, as long as there are forwards, and
# then the last `ahead` backwards.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2, write 1F1B: 15 minutes
#
# Or homework. Let people draw their result; `draw_schedule(timetable(...))` shows
# more than the check says.


# %% exercise="15b-1f1b"
def one_forward_one_backward(stages: int, microbatches: int) -> list[list[str]]:
    """One list of instructions per rank, such as ["F0", "F1", "B0", "B1"]."""
    ### BEGIN SOLUTION
    schedule = []
    for rank in range(stages):
        ahead = min(stages - 1 - rank, microbatches)
        order = [f"F{i}" for i in range(ahead)]
        for i in range(microbatches - ahead):
            order += [f"F{ahead + i}", f"B{i}"]
        order += [f"B{i}" for i in range(microbatches - ahead, microbatches)]
        schedule.append(order)
    return schedule
    ### END SOLUTION


# %%
check("15b-1f1b", one_forward_one_backward)

# %% [markdown] tags=["why"]
# <!-- why: 15b-1f1b -->
# Why it works: the first gradient comes back to rank r after a micro-batch has passed
# the p − 1 − r stages below it, and come back. In that time the rank can do p − 1 − r
# forwards ahead, and has to, or the stages below would have no work. From then on one
# gradient arrives for each forward that is sent, so one in, one out keeps the number of
# kept micro-batches at p − r at most. `min` is for batches that are cut into fewer
# parts than there are stages: then the first ranks do nothing but the run ahead and the
# way back.

# %% [markdown] tags=["instructor"]
# ## Thin stages: 6 minutes
#
# The two pictures have the same work in them: count the fill at the left of both. For the
# multiple of p, let four people pass three cards round in a circle.
#
# When late: leave the thin stages to the reader.

# %% [markdown]
# ## Thin stages
#
# Can the bubble shrink without more micro-batches? Cut the model into eight stages of
# half the length, and give each of four ranks two of them: rank 0 has stages 0 and 4,
# and so on. Each micro-batch passes every rank twice: 4F2 is the forward of micro-batch
# 2 through stage 4. A rank's second stage is drawn paler. This is **interleaved 1F1B**.

# %%
from parallel_by_hand.pipeline.schedules import interleaved

fat = timetable(one_f_one_b(4, 4), forward=2, backward=2)
thin = timetable(interleaved(4, 4), forward=1, backward=1)
draw_schedule(
    {"one thick stage on each rank": fat, "two thin stages on each rank": thin}
)

# %% [markdown]
# The fill at the beginning and the drain at the end go by in thin steps, so they take
# half as long. **With $v$ thin stages per rank the bubble is $(p-1)/(vm+p-1)$.** Does
# that hold in every picture? And how many *pieces* are kept, if a piece is what one
# stage keeps of one micro-batch?

# %%
from parallel_by_hand.pipeline.schedule_rules import bubble

agree = [
    abs(bubble(timetable(interleaved(p, m, v))) - (p - 1) / (v * m + p - 1)) < 1e-9
    for p in (2, 3, 4)
    for m in (p, 2 * p, 5 * p)
    for v in (2, 3, 4)
]
print(f"{sum(agree)} of {len(agree)} pictures agree")
for name, schedule in ("thick", one_f_one_b(4, 8)), ("thin", interleaved(4, 8)):
    print(f"{name:<5} pieces kept with 8 micro-batches: {peak_activations(schedule)}")

# %% [markdown]
# Here $m$ is a multiple of $p$. Micro-batches travel in groups of $p$: rank 0 lets $p$
# of them into stage 0, and after these $p$ slots the first one has come round from rank
# $p-1$ and enters stage $p$. With smaller groups, rank 0 would have nothing to do for
# some slots. So the paper asks for a multiple of $p$. torch 2.13 and our `interleaved`
# allow larger groups too: they ask for a multiple of $\max(1, \lfloor m/p \rfloor)$. So
# on 4 ranks 6 run in one group and 10 in two, but 9 and 11 are refused.

# %% [markdown]
# In return, messages cross $vp-1$ cuts instead of $p-1$, and more is kept. With eight
# micro-batches rank 0 keeps 11 thin pieces instead of 4 thick ones. A thin piece has
# two tensors instead of three, so 11 of them are as much as 7.3 thick ones.

# %% [markdown] tags=["instructor"]
# ## A backward in two parts: 8 minutes
#
# Write one linear layer on the board: the gradient of its input is grad · W, that of
# its weight is gradᵀ · x. Ask for each: who waits for it?
#
# When late: show the last picture, give the exercise as homework, and leave the paper's
# table out.

# %% [markdown]
# ## A backward in two parts
#
# A backward computes two things: the gradient of the stage's input, for which the rank
# before waits, and the gradients of the weights, which are not needed before the
# update. Cut the backward in two, and the second part can fill gaps. That is **zero
# bubble**.

# %% [markdown]
# B2 now computes only the gradient for the rank before, W2 that of the weights. Each
# takes about as long as a forward. Activations are kept until W is done.

# %%
from parallel_by_hand.pipeline.schedule_rules import timetable_length

right_after = [
    ["F0", "F1", "F2", "B0", "W0", "F3", "B1", "W1", "B2", "W2", "B3", "W3"],
    ["F0", "F1", "B0", "W0", "F2", "B1", "W1", "F3", "B2", "W2", "B3", "W3"],
    ["F0", "B0", "W0", "F1", "B1", "W1", "F2", "B2", "W2", "F3", "B3", "W3"],
]
whole = timetable(one_f_one_b(3, 4), forward=1, backward=2)
print(f"1F1B, a whole backward takes 2: {timetable_length(whole):g} slots")
workbench(right_after)

# %% [markdown]
# The same work takes 16 slots instead of 18. The order is that of 1F1B, and each W
# follows its B. Gradients leave one slot earlier at each rank, because they no longer
# wait for the weights' part. There are still gaps: rank 0 waits twice near its end,
# while rank 2 has done Ws early that could have waited.

# %% [markdown]
# ## Exercise 3: fill the gaps
#
# Write a schedule with F, B and W for three ranks and four micro-batches that takes
# **14 slots**, and in which no rank ever keeps more than three micro-batches. All
# instructions take one slot. A micro-batch is kept from its F to its W. Try your lists
# with `workbench`.
#
# By hand first: rank 2 cannot start before slot 2 and has 12 instructions. What is the
# least that any schedule can take?
# <!-- exercise: 15b-zero-bubble -->
#
# <details><summary>Hint 1: a question</summary>
#
# In the picture above, rank 1 waits for B3 of rank 2. What had rank 2 done before B3
# that could have waited?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# The last rank should send its gradients as early as it can: so it delays its Ws. It
# may keep three micro-batches, so it has to do a W before its fourth forward. Rank 0
# sends no gradients: it can do each W at once.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Let rank r do its W r micro-batches late. Rank 0: B0 W0 as above. Rank 1: W0 comes
# after B1, W1 after B2, and so on. Where does rank 2 do W0? The rest comes at the end.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3, fill the gaps: 20 minutes
#
# Let people move one W at a time and look at the picture. The first to move is W0 of rank
# 2. Expected: all Ws at the end, which keeps four micro-batches and is no faster.

# %% exercise="15b-zero-bubble"
fills_the_gaps = ...
### BEGIN SOLUTION
fills_the_gaps = [
    ["F0", "F1", "F2", "B0", "W0", "F3", "B1", "W1", "B2", "W2", "B3", "W3"],
    ["F0", "F1", "B0", "F2", "B1", "W0", "F3", "B2", "W1", "B3", "W2", "W3"],
    ["F0", "B0", "F1", "B1", "F2", "B2", "W0", "F3", "B3", "W1", "W2", "W3"],
]
### END SOLUTION

# %%
check("15b-zero-bubble", fills_the_gaps)

# %% [markdown] tags=["why"]
# <!-- why: 15b-zero-bubble -->
# Why it works: rank 2 begins in slot 2 and has 12 instructions, so 14 is the least,
# and it must never wait. Each B that comes earlier lets the rank before go on sooner.
# In the first half ranks 1 and 2 put off their Ws, up to what they may keep; at the
# end, where ranks used to wait for gradients, these Ws fill the gaps. Only the fill
# at the beginning is left.

# %% [markdown]
# ## Zero bubble for any size
#
# `zero_bubble` does the same for any number of ranks: 1F1B, with rank $r$ doing each W
# $r$ micro-batches late. The paper calls it ZB-H1. Compare it with 1F1B, whose whole
# backward takes two slots:

# %%
from parallel_by_hand.pipeline.schedules import zero_bubble

split, whole = timetable(zero_bubble(4, 8)), timetable(one_f_one_b(4, 8), 1, 2)
lengths = [
    timetable_length(timetable(zero_bubble(p, m))) == 3 * m + p - 1
    for p in range(1, 7)
    for m in range(p, 13)
]
print(f"{sum(lengths)} of {len(lengths)} pictures take 3m + p - 1 slots")
print(f"micro-batches kept: {peak_activations(zero_bubble(4, 8))}")
draw_schedule({"1F1B": whole, "zero bubble": split})

# %% [markdown]
# It takes 27 slots instead of 33. **A rank waits for $p-1$ slots instead of $3(p-1)$**,
# if F, B and W take equally long and $m \geq p$. In return, each of the later ranks
# keeps four micro-batches now, as rank 0 does. Only the fill is left. The paper removes
# that, too, by keeping still more and moving the update.

# %% [markdown]
# Compare all the schedules so far. In this picture one slot is the forward of a whole
# stage, and a thin stage takes half of it. "Save as plan.txt" writes the lists that you
# see. `read_schedule(text)` reads such a text for `workbench`, which carries it out; so
# does `python demos/pipeline/plan_pipeline.py --run --file plan.txt` in a terminal. The
# text has no times: for 1F1B, `--backward 2` gives those of the picture.

# %%
from parallel_by_hand.pipeline.schedules import read_schedule
from parallel_by_hand.pipeline.touch_schedule import touch_schedule

touch_schedule("1f1b", 4, 8, backward=2)

# %% [markdown]
# ## The schedules that torch has
#
# torch has more of them, each with two thin stages on a rank. `torch_schedule` asks
# torch for the list of each rank and writes it in our words. Two of them are a V: the
# forward goes down the ranks and up again, so rank 0 has the first stage and the last.
# We draw one V beside our zero bubble, whose stages are twice as thick:

# %%
from parallel_by_hand.pipeline.schedule_rules import kinds_of_work
from parallel_by_hand.pipeline.torch_schedules import TORCH_SCHEDULES, torch_schedule

plans = {"zero bubble": timetable(zero_bubble(4, 8), 2, 2, 2)}
kept = {"zero bubble": [2 * m for m in peak_activations(zero_bubble(4, 8))]}
for name in TORCH_SCHEDULES:
    schedule = torch_schedule(name, 4, 8)
    kept[name] = peak_activations(schedule)
    plans[name] = timetable(schedule, 1, 1 if "W" in kinds_of_work(schedule) else 2)
for name, plan in plans.items():
    print(f"{name:21} {timetable_length(plan)} thin slots, kept {kept[name]}")
draw_schedule({name: plans[name] for name in ("zero bubble", "ZBVZeroBubble")})

# %% [markdown]
# **The V halves zero bubble's wait, from 6 thin slots to 3, and no rank keeps more**:
# the earlier a rank's first stage, the later its second, and a late stage keeps each
# micro-batch only briefly. Interleaved zero bubble does as well on paper, but the V has
# one cut fewer to send across: the last rank's two stages are neighbours.
# DualPipeV, from DeepSeek's DualPipe, pairs a forward with a backward, so that the
# messages of one hide behind the work of the other. On our paper messages take no time,
# and it gains nothing. Four sleeping ranks carry out torch's V of four micro-batches:

# %%
workbench(torch_schedule("ZBVZeroBubble", 4, 4), seconds=0.02)

# %% [markdown] tags=["instructor"]
# ## torch, the paper, the scorecard: 10 minutes
#
# The losses agree to within rounding. On a busy machine the ratio moves; run the cell
# twice before you read anything into it.
#
# The paper's row M = 4 is worth a discussion: the formula must be wrong, or the
# measurement is of something else.

# %% [markdown]
# ## The real thing
#
# torch has these schedules. Here it trains the same two stages as our executor, as in
# 15a, now with 1F1B:

# %%
from statistics import median

from parallel_by_hand.pipeline.pipeline_beside_torch import both_pipelines_in_turn

found = run_ranks(both_pipelines_in_turn, one_f_one_b, 8, world_size=2)[-1]
gaps = [abs(a - b) for a, b in zip(found["ours"], found["torch"], strict=True)]
print(f"{len(gaps)} steps, losses within 1e-6: {all(gap <= 1e-6 for gap in gaps)}")
ratio = median(found["ours seconds"]) / median(found["torch seconds"])
print(f"ours takes {ratio:.2f} × torch's time")

# %% [markdown]
# | here | torch | Megatron-LM | DeepSpeed |
# |---|---|---|---|
# | stage | `PipelineStage` | pipeline model parallel rank | `PipelineModule` |
# | micro-batches | `n_microbatches` | number of micro-batches | accumulation steps |
# | GPipe | `ScheduleGPipe` | – | – |
# | 1F1B | `Schedule1F1B` | the default | `TrainSchedule` |
# | interleaved, its thin stages | `ScheduleInterleaved1F1B` | virtual stages | – |
# | zero bubble | `ScheduleInterleavedZeroBubble` | in the authors' fork | – |
# | recompute | `checkpoint` in the module | `--recompute-granularity` | `activation_checkpoint_interval` |

# %% [markdown]
# Our executor goes through the whole stage for each W, and so repeats some of B's work.
# torch's keeps the gradients in between: use ours to plan, and torch's to save time.
# JAX has no ready-made schedule: there, stages lie along one side of a mesh of devices,
# and activations move to the neighbour with `ppermute`.

# %% [markdown]
# ## Appendix: held against the paper
#
# You may skip this section: nothing later needs it. GPipe's authors measured a
# Transformer on $K$ = 2, 4 and 8 accelerators with $M$ micro-batches: Huang et al.
# 2019, table 2. Their numbers are throughputs, compared with $K = 2$, $M = 1$. If the
# bubble is $b$, only the share $1 - b$ of $K$ accelerators works, so our formula says
# $K \cdot M / (M + K - 1)$.

# %% [markdown]
# But they recompute. A rank that waits for its first gradient can use the bubble to
# compute its activations again; only the last rank has no time for it. With forward,
# second forward and backward in the ratio 1 : 1 : 2, a step takes $3(M + K - 1) + M$
# units instead of $4(M + K - 1)$, each as long as one forward of one micro-batch in
# one stage.

# %%
published = {1: [1, 1.07, 1.3], 4: [1.7, 3.2, 4.8], 32: [1.8, 3.4, 6.3]}
for m, throughputs in published.items():
    for k, paper in zip([2, 4, 8], throughputs, strict=True):
        formula = k * m / (m + k - 1)
        in_bubble = 7 / 2 * k * m / (3 * (m + k - 1) + m)  # 7 / 2: K = 2, M = 1
        print(f"M = {m:2}  K = {k}  formula {formula:.2f}", end="  ")
        print(f"recomputed in the bubble {in_bubble:.2f}  paper {paper:.2f}")

# %% [markdown]
# With one micro-batch and $K$ = 4 the formula says 1, no gain at all, and the paper 1.07:
# **recomputation in the bubble gives 1.08.** With $M$ = 32 the paper lies between the two
# columns: 4 to 7 % below the first, 4 to 5 % above the second.

# %% [markdown]
# The rest, $K$ = 8 with $M$ = 1 and all of $M$ = 4, is above both, by up to 65 % of the
# first: the paper says that the batch size "was adjusted to fit memory if necessary".
# When a measurement beats the ideal, ask what else has changed.

# %% [markdown]
# ## The scorecard
#
# All of it on the network of eight layers: gradients compared with the unsplit model's,
# bytes of activations that ranks 0 to 3 keep, and bytes that they send.

# %%
from parallel_by_hand.pipeline.measured_step import gradients_by_layer
from parallel_by_hand.pipeline.schedules import naive

one_piece = run_ranks(step_through_pipeline, gpipe(1, 1), world_size=1)
for make, again in [
    (naive, False), (gpipe, False), (gpipe, True),
    (one_f_one_b, False), (interleaved, False), (zero_bubble, False),
]:  # fmt: skip
    ranks = run_ranks(step_through_pipeline, make(4, 8), 8, again, world_size=4)
    pairs = zip(gradients_by_layer(ranks), gradients_by_layer(one_piece), strict=True)
    equal = all(a.allclose(b, rtol=0, atol=1e-6) for a, b in pairs)
    print(f"{make.__name__ + ' recomputed' * again}: equal {equal}", end=", ")
    print("kept", [rank["activations"] for rank in ranks], end=", ")
    print("sent", [rank["sent"] for rank in ranks])

# %% [markdown]
# | | GPipe | 1F1B | interleaved, $v$ | zero bubble |
# |---|---|---|---|---|
# | equal to one process | to 10⁻⁶ | to 10⁻⁶ | to 10⁻⁶ | to 10⁻⁶ |
# | bytes each rank sends | the batch at its cuts | the same | at $v$ times as many stages | as 1F1B |
# | memory: parameters, gradients, optimiser | $1/p$ | $1/p$ | $1/p$ | $1/p$ |
# | memory: activations | $m$ micro-batches; recomputed: their inputs, and one micro-batch | rank $r$: $p-r$ | more than 1F1B | $p$ on each rank |
# | idle slots of a rank, backward = 2 forwards | $3(p-1)$ | $3(p-1)$ | $3(p-1)/v$ | $p-1$ |
# | if one rank dies | its layers are gone | the same | the same | the same |
#
# Equal under the conditions of 15a: a mean over samples, no batch norm, no dropout.

# %% [markdown]
# ## What we saw
#
# * GPipe keeps the whole batch, unless the stages compute again. 1F1B has its bubble, and
#   keeps at most $p$ micro-batches.
# * Thin stages shrink the bubble and keep more. A backward in two parts fills gaps.
#
# In a terminal, `python demos/pipeline/plan_pipeline.py --schedule zero-bubble` draws
# it; `--file` reads your own schedule. The script to take home is that of 15a,
# [demos/pipeline/own_pipeline.py](../demos/pipeline/own_pipeline.py).
#
# ## Next
#
# A pipeline cuts a model between its layers. What if a single layer is too large for
# one device, or the batch too small to cut? Lesson 16a cuts through the layers.
