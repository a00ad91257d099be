"""What the meter of the bug museum reads, and how a program of it is repaired."""

import copy
import inspect
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from parallel_by_hand.data_parallel import exhibits
from parallel_by_hand.data_parallel.changed_lines import code_with_changed_lines
from parallel_by_hand.data_parallel.exhibits import EXHIBITS, LONGEST, LR, make_model
from sidebyside import device, load_digits, run_ranks


def exhibit_lines(name: str) -> list[str]:
    """The lines of a program in the museum; the first has number 1."""
    return inspect.getsource(EXHIBITS[name]).splitlines()


def repaired_exhibit(name: str, changes: dict[int, str]) -> str:
    """The museum's program with new text for some lines: `code_with_changed_lines`."""
    return code_with_changed_lines(name, exhibit_lines(name), changes)


def program_of_exhibit(code: str, name: str):
    """The function that this code defines, among the museum's own names."""
    names: dict[str, Any] = {**vars(exhibits), "copy": copy}
    exec(compile(code, f"<exhibit {name}>", "exec"), names)
    return names[f"exhibit_{name.lower()}"]


def museum_batches(name: str, ranks: int, steps: int = 4) -> list[tuple]:
    """What a program of the museum trains on: equal shares, but for D and F."""
    if name == "F":
        return [_museum_digits(load_digits("test"))]
    size = 32 * ranks - 23 if name == "D" else 12 * ranks
    images, labels = _museum_digits(load_digits("train"))
    numbers = torch.arange(steps * size) % len(images)  # a batch of many ranks is large
    return [(images[n], labels[n]) for n in numbers.split(size)]


def _museum_digits(part: tuple) -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = part
    return images.to(device(), torch.float64), labels.to(device())


def _run_exhibits(codes: dict[str, str], ranks: int) -> dict[str, SimpleNamespace]:
    """Runs in each rank: what each program has shown of itself."""
    return {name: _run_exhibit(code, name, ranks) for name, code in codes.items()}


def _run_exhibit(code: str, name: str, ranks: int) -> SimpleNamespace:
    batches = museum_batches(name, ranks)
    arguments = (batches, ranks) if name == "A" else (batches,)
    models, said, storages = [], [], 0
    for shown in program_of_exhibit(code, name)(*arguments):
        if isinstance(shown, nn.Module | list):
            replicas = shown if isinstance(shown, list) else [shown]
            models.append([_flat_exhibit_model(replica) for replica in replicas])
            storages = len({next(r.parameters()).data_ptr() for r in replicas})
        else:
            said.append(float(shown))
    history = [torch.stack(one) for one in zip(*models, strict=True)]
    return SimpleNamespace(models=history, said=said, storages=storages)


def _flat_exhibit_model(model: nn.Module) -> torch.Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().cpu().clone()


def train_exhibit_alone(name: str, ranks: int, start: torch.Tensor) -> torch.Tensor:
    """For the museum's meter: one process on the same batches, step by step."""
    model = make_model()
    nn.utils.vector_to_parameters(start.clone().to(device()), model.parameters())
    sgd, history = torch.optim.SGD(model.parameters(), lr=LR), [start]
    for x, y in museum_batches(name, ranks):
        sgd.zero_grad()
        cross_entropy(model(x), y).backward()
        if name == "G":
            nn.utils.clip_grad_norm_(model.parameters(), LONGEST)
        sgd.step()
        history.append(_flat_exhibit_model(model))
    return torch.stack(history)


def exhibit_accuracy_alone() -> float:
    """For the museum's meter: what one process finds right on the data of F."""
    [(x, y)] = museum_batches("F", 1)
    return (exhibits.make_trained_model()(x).argmax(1) == y).double().mean().item()


def look_at_exhibits(
    codes: dict[str, str], ranks: int = 2, timeout: float = 60
) -> dict:
    """Run the museum's programs in so many ranks; A with its replicas in one rank."""
    options = {"world_size": ranks, "timeout": timeout}
    found = run_ranks(_run_exhibits, codes, ranks, **options)
    return {name: _of_all_ranks([rank[name] for rank in found], name) for name in codes}


def _of_all_ranks(found: list[SimpleNamespace], name: str) -> SimpleNamespace:
    found = found[:1] if name == "A" else found
    models = [model for rank in found for model in rank.models]
    said = [number for rank in found for number in rank.said]
    return SimpleNamespace(models=models, said=said, storages=found[0].storages)


def _exhibit_readings(name: str, found: SimpleNamespace, ranks: int) -> Iterator[str]:
    """What the meter reads, line by line."""
    if name == "F":
        said = ", ".join(f"{number:.3f}" for number in found.said)
        yield f"the ranks say {said}"
        yield f"one process with all images says {exhibit_accuracy_alone():.3f}"
        return
    first, last = found.models[0], found.models[-1]
    alone = train_exhibit_alone(name, ranks, first[0])
    apart = (first - last).abs().amax(dim=1)
    step, right = first[1] - first[0], alone[1] - alone[0]
    yield f"replicas apart: {apart[0]:.3f} at the start, {apart[-1]:.3f} in the end"
    way = (alone[-1] - alone[0]).norm()
    yield f"first step: {step.norm() / right.norm():.2f} times as long as one process's"
    yield f"in the end: {(first[-1] - alone[-1]).norm() / way:.3f} of its way off"
    if name == "A":
        yield f"memory: weights for {found.storages} of {ranks} replicas"


def show_exhibits(names: str = "ABCDEFG", ranks: int = 2) -> None:
    """Print programs with the numbers of their lines, and what the meter reads."""
    lines = {name: exhibit_lines(name) for name in names}
    found = look_at_exhibits({name: "\n".join(lines[name]) for name in names}, ranks)
    for name in names:
        print(f"Exhibit {name}")
        for number, line in enumerate(lines[name], 1):
            print(f"{number:2}  {line}")
        for line in _exhibit_readings(name, found[name], ranks):
            print(f"  > {line}")
        print()
