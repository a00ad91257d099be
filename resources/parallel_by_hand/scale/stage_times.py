"""The seconds that each stage needs for one micro-batch, forward and backward."""

from typing import NamedTuple

from parallel_by_hand.scale import step_messages as messages
from parallel_by_hand.scale.step_arithmetic import head_seconds, layer_seconds
from parallel_by_hand.scale.step_memory import layers_of_stages
from parallel_by_hand.scale.training_plan import Cluster, Model, Strategy


class PassageThroughStage(NamedTuple):
    """A micro-batch's way through a stage: seconds of computing, and of messages."""

    computing: float
    tensor: float
    data: float
    pipeline: float  # by which what is handed on, meanwhile, slows the stage down
    expert: float = 0.0

    @property
    def busy(self) -> float:
        """Without data parallel's messages, which may overlap with it."""
        return self.computing + self.tensor + self.expert

    @property
    def total(self) -> float:
        return sum(self)


class StageTimes(NamedTuple):
    """The passages of one stage, which has so many layers."""

    layers: int
    forward: PassageThroughStage
    backward: PassageThroughStage

    @property
    def computing(self) -> float:
        return self.forward.computing + self.backward.computing


def side_by_side(computing: float, sending: float, units: int) -> float:
    """In a stage, seconds for both where they overlap, in so many equal units.

    A unit is sent once it is computed (or computed once it has come), and units are
    sent one at a time: the slower of the two goes on all the time, and the other one
    sticks out by one unit.
    """
    if not sending:
        return computing  # without rounding
    return (computing + sending + (units - 1) * max(computing, sending)) / units


def seconds_added(
    computing: float, sending: float, units: int, contention: float
) -> float:
    """To a stage's computing by messages: what sticks out, and what they slow it by."""
    out = side_by_side(computing, sending, units) - computing
    return out + contention * (sending - out)


def times_of_stages(
    model: Model, cluster: Cluster, strategy: Strategy
) -> list[StageTimes]:
    """The times of each stage of the model, from first to last."""
    layers = layers_of_stages(model, strategy)
    layer = layer_seconds(model, cluster, strategy)
    around = messages.tensor_messages(model, cluster, strategy)
    routed = messages.expert_messages(model, cluster, strategy)
    handed_on = messages.stage_message(model, cluster, strategy)
    slower = cluster.contention * handed_on.seconds
    last = len(layers) - 1
    stages = []
    for stage, count in enumerate(layers):
        rank = stage % strategy.pipeline
        data = messages.data_messages(model, cluster, strategy, rank)
        thin = count / sum(layers[rank :: strategy.pipeline])  # of this rank's layers
        ends = _ends_of_model(model, cluster, strategy, stage == 0, stage == last)
        passages = []
        for way, extra, shards, goes_on in (
            (0, ends[0], data.forward, stage < last),
            (1, ends[1], data.backward, stage > 0),
        ):
            passage = PassageThroughStage(
                count * layer[way] + extra[0],
                count * around[way].seconds + extra[1],
                thin * shards.seconds,
                slower if goes_on else 0.0,
                count * routed[way].seconds,
            )
            if strategy.overlap:
                waiting = seconds_added(
                    passage.busy, passage.data, count, cluster.contention
                )
                passage = passage._replace(data=waiting)
            passages.append(passage)
        stages.append(StageTimes(count, *passages))
    return stages


def _ends_of_model(
    model: Model, cluster: Cluster, strategy: Strategy, first: bool, last: bool
) -> list[tuple[float, float]]:
    """(computing, tensor messages), forward and backward, of embedding and logits."""
    computing, tensor = [0.0, 0.0], [0.0, 0.0]
    if first:
        tensor[0] += messages.embedding_messages(model, cluster, strategy).seconds
    if last and model.vocabulary:
        computing = list(head_seconds(model, cluster, strategy))
        sent = messages.head_messages(model, cluster, strategy)
        tensor = [t + message.seconds for t, message in zip(tensor, sent, strict=True)]
    return list(zip(computing, tensor, strict=True))
