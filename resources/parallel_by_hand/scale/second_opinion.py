"""The planner, asked again with less bandwidth between nodes than it believed."""

from dataclasses import replace
from typing import NamedTuple

from parallel_by_hand.scale.plan_search import fastest_strategies, survey_strategies
from parallel_by_hand.scale.simulated_step import SimulatedStep, simulate_step
from parallel_by_hand.scale.training_plan import Cluster, Model

SHARE_OF_LINK = 0.25
"""Of the bandwidth between nodes, if only two of a node's eight cards are used."""


class SecondOpinion(NamedTuple):
    """Two steps on the slower links: the planner's favourite, and the really best."""

    favourite: SimulatedStep
    better: SimulatedStep

    @property
    def loss(self) -> float:
        """By which share of its time the favourite takes longer than need be."""
        return self.favourite.seconds / self.better.seconds - 1


def with_slower_links(cluster: Cluster, share: float = SHARE_OF_LINK) -> Cluster:
    """For a second opinion: links between nodes carry `share` of the bandwidth."""
    link = cluster.link_between
    slower = link._replace(bandwidth=share * link.bandwidth)
    return replace(cluster, link_between=slower)


def second_opinion(model: Model, cluster: Cluster, batch: int) -> SecondOpinion | None:
    """Plan with all cards, then look at what is best with slower links."""
    survey = survey_strategies(model, cluster, batch)
    if not survey.memory:
        raise ValueError("no strategy is legal")
    if not survey.bounds:
        return None
    slower = with_slower_links(cluster)
    favourite = fastest_strategies(survey, 1)[0].strategy
    better = fastest_strategies(survey_strategies(model, slower, batch), 1)[0]
    return SecondOpinion(simulate_step(model, slower, favourite, batch), better)
