"""Where modules went: from demos to the library or to a lesson, instruments to rooms.

Two things read this: an update rewrites the old lines in copies of the lessons that
their learners have changed, and an old import says where its module is now.
"""

import re

from sidebyside.course.record import ROOT

IN_LIBRARY = {  # elsewhere than in the room and under the name that it had
    "capstone.text_training": "capstone.trainer",
    "failures.atomic_file": "checkpoints.atomic_file",
    "failures.failure_clock": "failures.checkpoint_interval",
    "model_parallel.device_memory": "memory.device_memory",
    "parameter_server.parameter_server": "parameter_server.server_and_workers",
    "pipeline.kept_bytes": "memory.kept_bytes",
    "pipeline.plan_pipeline": "pipeline.schedule_arguments",
    "scale.plan_pictures": "scale.best_plans",
    "sharding.recomputation": "memory.recomputation",
    "tensor_parallel.ring_attention": "context_parallel.ring_attention",
    "tensor_parallel.tensor_parallel_block": "tensor_parallel.mlp",
}
OF_ONE_LESSON = {  # of which no other lesson and no demo makes use
    "capstone.ladder_pictures": "the_ladder",
    "capstone.text_curve": "your_training",
    "capstone.unequal_rows": "the_ladder",
    "collectives.cost_pictures": "all_reduce_and_its_cost",
    "data_parallel.wide_and_deep": "data_parallel_by_hand",
    "decentralised.agreement_pictures": "local_sgd_and_gossip",
    "devices.slow_batches": "devices_and_queues",
    "failures.failure_pictures": "failure",
    "failures.left_out": "failure",
    "gil.thread_turns": "the_gil",
    "machines.way_bars": "many_machines",
    "model_parallel.cut_pictures": "model_parallel_cuts",
    "model_parallel.split_pictures": "space_and_wavefront",
    "overheads.timelines_of_naps": "overheads_and_how_many_workers",
    "parameter_server.server_pictures": "parameter_server_pictures",
    "performance.speed_claims": "why_parallel",
    "practice.shared_by_name": "parallel_work_in_practice",
    "processes.five_jobs": "processes_and_threads",
    "processes.notebook_functions": "processes_and_threads",
    "processes.squares_in_children": "processes_and_threads",
    "sharding.sharding_pictures": "sharded_parameters",
    "sharding.sleeping_layers": "sharded_parameters",
    "tensor_parallel.head_drawing": "attention_vocabulary_sequence",
    "tensor_parallel.kept_bars": "attention_vocabulary_sequence",
    "tensor_parallel.products_drawing": "tensor_parallel",
}
TO_ANOTHER_ROOM = {old: f"parallel_by_hand.{new}" for old, new in IN_LIBRARY.items()}
TO_ANOTHER_ROOM |= {old: f"lessons.props.{new}" for old, new in OF_ONE_LESSON.items()}

OF_INSTRUMENTS = {  # those that lessons and demos imported by their module
    "arguments": "programs.arguments",
    "devices": "ranks.devices",
    "record": "course.record",
    "scratch": "programs.scratch",
    "single_use": "course.single_use",
    "timeline_picture": "timeline.picture",
}

MODULE = re.compile(r"\b(?:demos|parallel_by_hand)\.(\w+)\.(?:parts\.)?(\w+)\b")
FILE = re.compile(r"\bdemos/(\w+)/parts/(\w+)\.py\b")
INSTRUMENT = re.compile(rf"\bsidebyside\.({'|'.join(OF_INSTRUMENTS)})\b")
WHOLE_MODULES = re.compile(
    r"^([ \t]*)from (demos\.\w+(?:\.parts)?|parallel_by_hand\.\w+)"
    r" import (\([^)]*\)|[^\n(#]+)",
    re.MULTILINE,
)


def new_name(group: str, name: str) -> str | None:
    """The module that now holds what `demos.<group>[.parts].<name>` held."""
    if place := TO_ANOTHER_ROOM.get(f"{group}.{name}"):
        return place
    place = ROOT / f"resources/parallel_by_hand/{group}/{name}.py"
    return f"parallel_by_hand.{group}.{name}" if place.exists() else None


def rewritten(text: str) -> str:
    """The same text or code, with the new names in place of the old ones."""
    text = WHOLE_MODULES.sub(_imports_by_package, text)
    text = MODULE.sub(lambda old: new_name(*old.groups()) or old[0], text)
    text = INSTRUMENT.sub(lambda old: f"sidebyside.{OF_INSTRUMENTS[old[1]]}", text)
    return FILE.sub(_new_file, text)


def _imports_by_package(old: re.Match) -> str:
    """`from demos.group import a, b` as one import from each of their new packages."""
    indent, package, names = old.groups()
    places = {
        (was, alias): new_name(package.split(".")[1], was) or f"{package}.{was}"
        for was, alias in re.findall(r"(\w+)(?: as (\w+))?", names)
    }
    if all(place == f"{package}.{was}" for (was, _), place in places.items()):
        return old[0]
    packages: dict[str, list[str]] = {}
    for (was, alias), place in places.items():
        home, _, now = place.rpartition(".")
        alias = alias or was
        named = now if now == alias else f"{now} as {alias}"
        packages.setdefault(home, []).append(named)
    return "\n".join(
        f"{indent}from {home} import {', '.join(named)}"
        for home, named in packages.items()
    )


def _new_file(old: re.Match) -> str:
    place = new_name(*old.groups())
    if place is None:
        return old[0]
    folder = "resources/" if place.startswith("parallel_by_hand") else ""
    return f"{folder}{place.replace('.', '/')}.py"
