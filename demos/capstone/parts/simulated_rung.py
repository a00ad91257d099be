"""A rung in lesson 19's words: what its simulator says of the blocks, and the ends.

The simulator knows a transformer's layers. Our embedding and head are not those of a
GPT (they share no table, and tensor ranks hold them whole), so they are counted apart.
"""

from demos.capstone.parts.ladder_rungs import PLANS
from demos.capstone.parts.language_model import SMALL_MODEL, ModelSize
from demos.capstone.parts.rung_predictions import layer_numbers, sent_between_replicas
from demos.scale.parts.simulated_step import Step, simulate_step
from demos.scale.parts.training_plan import Cluster, Link, Model, Strategy
from demos.sharding.parts.ledger import STRATEGIES, StateBytes

# Bytes do not depend on the machine, so any will do; time is not read from it.
SOME_LINK = Link(1e-5, 1e9)


def simulate_rung(
    name: str, size: ModelSize = SMALL_MODEL, batch: int = 8, item: int = 4
) -> Step:
    """Lesson 19's step of the blocks of this rung, without embedding and head."""
    plan = PLANS[name]
    model = Model(size.blocks, size.width, size.heads, size.length, vocabulary=0)
    strategy = Strategy(
        plan.data,
        plan.tensor,
        plan.pipeline,
        STRATEGIES.index(plan.zero) if plan.zero else 0,
        micro_batch=batch // plan.data // plan.microbatches,
        schedule="gpipe" if name == "GPipe" else "1f1b",
        state=StateBytes(item, item, item),
    )
    cluster = Cluster(strategy.gpus, 1, 1e12, 0.5, 1e9, 1e11, SOME_LINK, SOME_LINK)
    return simulate_step(model, cluster, strategy, batch)


def simulated_bytes(
    name: str, size: ModelSize = SMALL_MODEL, batch: int = 8, item: int = 4
) -> list[dict[str, int]]:
    """Bytes to each group of the mesh, for a rank of each stage; the ends included."""
    plan, step = PLANS[name], simulate_rung(name, size, batch, item)
    numbers = layer_numbers(size, plan.tensor)
    found = []
    for stage, sent in enumerate(step.sent_by_ranks):
        ends = [sum(numbers[0])] * (stage == 0)
        ends += [sum(numbers[-1])] * (stage == plan.pipeline - 1)
        data = sent.get("data", 0) + sent_between_replicas(plan, ends, item)
        found.append({g: round(b) for g, b in (sent | {"data": data}).items()})
    return found
