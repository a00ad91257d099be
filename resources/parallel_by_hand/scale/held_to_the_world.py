"""What the simulator makes of published trainings, and by how much it misses."""

from typing import NamedTuple

from parallel_by_hand.scale.published_runs import PublishedRun
from parallel_by_hand.scale.simulated_step import SimulatedStep, simulate_step
from parallel_by_hand.scale.step_arithmetic import step_flops


class HeldToTheWorld(NamedTuple):
    """A published run beside the simulated step; `miss` is a share of the published."""

    run: PublishedRun
    step: SimulatedStep
    teraflops: float

    @property
    def miss(self) -> float:
        return self.teraflops / self.run.teraflops - 1


def simulate_run(run: PublishedRun) -> HeldToTheWorld:
    """A run of the world, simulated: operations as the paper counts, by our seconds."""
    step = simulate_step(run.model, run.cluster, run.strategy, run.batch)
    flops = step_flops(run.model, run.batch, run.counted)
    return HeldToTheWorld(run, step, flops / (step.seconds * run.cluster.gpus * 1e12))


def best_constant(published: list[float]) -> float:
    """Of the world's rows, the number whose largest miss, as a share, is smallest."""
    low, high = min(published), max(published)
    return 2 * low * high / (low + high)


def worst_miss(misses: list[float]) -> float:
    """The largest miss of the world's rows, above or below."""
    return max(map(abs, misses))


def implied_links(held: HeldToTheWorld) -> tuple[float, float]:
    """What the world's rows allow: bytes per second of data parallel's messages."""
    simulated = held.step
    seconds = simulated.seconds * held.teraflops / held.run.teraflops
    moved, computing = simulated.sent["data"], simulated.spent["computing"]
    return moved / seconds, moved / (seconds - computing)


def print_held_runs(held: list[HeldToTheWorld]) -> None:
    """The world's runs: TF/s of a GPU published and simulated, miss, utilisations."""
    print(f"{'TF/s of a GPU':<16}  paper  simulated    miss  hardware  model")
    for one in held:
        step = one.step
        print(
            f"{one.run.name:<16} {one.run.teraflops:6} {one.teraflops:10.1f} "
            f"{one.miss:+7.1%} {step.hardware_utilisation:9.1%} "
            f"{step.model_utilisation:6.1%}"
        )
