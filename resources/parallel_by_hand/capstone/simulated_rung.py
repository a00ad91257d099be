"""A rung in lesson 19's words: what its simulator says of the blocks, and the ends.

The simulator knows a transformer's layers. Our embedding and head are not those of a
GPT (they share no table, and tensor ranks hold them whole), so they are counted apart.
"""

from operator import add
from typing import NamedTuple

from parallel_by_hand.capstone.ladder_rungs import PLANS
from parallel_by_hand.capstone.ladder_table import HALF_SEEN, Rung
from parallel_by_hand.capstone.language_model import SMALL_MODEL
from parallel_by_hand.capstone.rung_predictions import (
    RungPlan,
    numbers_of_rung_layers,
    sent_between_replicas,
    state_of_rung_units,
)
from parallel_by_hand.scale.simulated_step import SimulatedStep, simulate_step
from parallel_by_hand.scale.training_plan import Cluster, Link, Model, Strategy
from parallel_by_hand.sharding.ledger import STRATEGIES, StateBytes

# The rungs of the notebook, but for sequence and context parallel: the simulator knows
# the forms that gather once more in backward.
LEFT_OUT = HALF_SEEN, "FSDP2 (torch)", "sequence", "context"
SIMULATED = [name for name in PLANS if name not in LEFT_OUT]

SIZE, BATCH, ITEM = SMALL_MODEL, 8, 4  # as in the notebook; bytes of a number

# Bytes do not depend on the machine, so any will do. Of its times only the bubble is
# read, as the ladder has it: of stages whose messages take none.
FREE_LINK = Link(0.0, 1e18)


def simulate_rung(name: str) -> SimulatedStep:
    """Lesson 19's step of the blocks of this rung, without embedding and head."""
    plan = PLANS[name]
    model = Model(SIZE.blocks, SIZE.width, SIZE.heads, SIZE.length, vocabulary=0)
    strategy = Strategy(
        plan.data,
        plan.tensor,
        plan.pipeline,
        STRATEGIES.index(plan.zero) if plan.zero else 0,
        micro_batch=BATCH // plan.data // plan.microbatches,
        schedule="gpipe" if name == "GPipe" else "1f1b",
        state=StateBytes(ITEM, ITEM, ITEM),
        context=plan.context,
        hybrid=plan.hybrid,
    )
    cluster = Cluster(strategy.gpus, 1, 1e12, 0.5, 1e9, 1e11, FREE_LINK, FREE_LINK)
    return simulate_step(model, cluster, strategy, BATCH)


def simulated_bytes(name: str) -> list[dict[str, int]]:
    """A rung's simulated bytes to each group of the mesh, by stage, ends included."""
    plan, step = PLANS[name], simulate_rung(name)
    found = []
    for sent, ends in zip(step.sent_by_ranks, _ends(plan), strict=True):
        data = sent.get("data", 0) + sent_between_replicas(plan, ends, ITEM)
        found.append({g: round(b) for g, b in (sent | {"data": data}).items()})
    return found


def simulated_state(name: str) -> list[StateBytes]:
    """A rung's simulated parameters, gradients and momentum, by stage, ends included.

    Without what ZeRO borrows: the simulator gathers a layer ahead, the ladder does not.
    """
    plan, step = PLANS[name], simulate_rung(name)
    of_ends = [state_of_rung_units(plan, ends, ITEM) for ends in _ends(plan)]
    return [
        StateBytes(*map(add, ledger[:3], ends))
        for ledger, ends in zip(step.ledgers, of_ends, strict=True)
    ]


def _ends(plan: RungPlan) -> list[list[int]]:
    """Parameters of the embedding and of the head, on the stages that have them."""
    embedding, *_, head = map(sum, numbers_of_rung_layers(SIZE, plan.tensor))
    last = plan.pipeline - 1
    stages = range(plan.pipeline)
    return [[embedding] * (stage == 0) + [head] * (stage == last) for stage in stages]


class SimulatedRank(NamedTuple):
    """What the simulator says of a rank of the first stage of a rung."""

    sent: int
    state: int
    activations: int
    bubble: float | None  # None without a pipeline


def _simulate_rank(name: str) -> SimulatedRank:
    step = simulate_rung(name)
    sent, state = simulated_bytes(name)[0], simulated_state(name)[0]
    bubble = step.bubble if PLANS[name].schedule else None
    return SimulatedRank(
        sum(sent.values()), sum(state), step.ledgers[0].activations, bubble
    )


def print_simulated() -> None:
    """Before the climb: what the simulator says that each rung is to cost."""
    print(f"{'':<16}{'bytes sent':>10}{'state':>12}{'activations':>14}{'bubble':>9}")
    for name in SIMULATED:
        sent, state, kept, bubble = _simulate_rank(name)
        idle = "" if bubble is None else f"{100 * bubble:7.0f} %"
        print(f"{name:<16}{sent:10,}{state:12,}{kept:14,}{idle}")


def print_beside_counted(rungs: list[Rung]) -> None:
    """After the climb: what was simulated for a rung beside what rank 0 has counted."""
    pair = "simulated  counted"
    print(f"{'':<16}{'bytes of state':>20}{'bytes of activations':>28}{'bubble':>19}")
    print(f"{'':<16}{pair:>20}{pair:>21}{'miss':>7}{pair:>19}")
    for rung in rungs:
        if rung.name in SIMULATED:
            _, state, kept, bubble = _simulate_rank(rung.name)
            cost = rung.ranks[0].cost
            counted = cost.activations
            line = f"{rung.name:<16}{state:11,}{cost.state:9,}"
            line += f"{kept:12,}{counted:9,}{100 * (kept / counted - 1):+5.0f} %"
            if bubble is not None:
                line += f"{100 * bubble:8.0f} %{100 * rung.bubble:7.0f} %"
            print(line)
