"""What `simulate.py` and `plan.py` are told alike: a model, a cluster, a strategy."""

import argparse
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from parallel_by_hand.pipeline.schedules import SCHEDULES_BY_NAME
from parallel_by_hand.scale.known_gpus import (
    CARD_SHOWS,
    GPUS,
    SHARE_BETWEEN,
    SHARE_WITHIN,
    UNFITTED,
)
from parallel_by_hand.scale.known_models import KNOWN_MODELS, model_from_config
from parallel_by_hand.scale.plan_facts import OPTIMISERS, SEARCHED
from parallel_by_hand.scale.published_table import PRECISIONS
from parallel_by_hand.scale.training_plan import (
    RECOMPUTATIONS,
    Cluster,
    Model,
    Strategy,
)
from sidebyside import at_least, between


def _named_model(text: str) -> Model:
    """An argparse type: a model that we know, or its config.json."""
    if text in KNOWN_MODELS:
        return KNOWN_MODELS[text]
    if not text.endswith(".json"):
        known = ", ".join(KNOWN_MODELS)
        raise argparse.ArgumentTypeError(f"must be a config.json, or one of {known}")
    try:
        return model_from_config(Path(text))
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def add_model_arguments(parser: argparse.ArgumentParser, default: Model) -> None:
    """--model, and the fields of `Model`, each of which may differ from it."""
    known = f"a config.json, or one of {', '.join(KNOWN_MODELS)}"
    parser.add_argument("--model", type=_named_model, default=default, help=known)
    kinds = {
        "layers": (at_least(1, 1000), f"default: {default.layers}"),
        "hidden": (at_least(1, 10**6), f"default: {default.hidden}"),
        "heads": (at_least(1, 10**4), f"default: {default.heads}"),
        "sequence": (at_least(1, 10**7), f"tokens; default: {default.sequence}"),
        "vocabulary": (at_least(1, 10**7), f"default: {default.vocabulary}"),
        "kv_heads": (at_least(1, 10**4), "heads of keys; default: as many as heads"),
        "mlp": (at_least(1, 10**7), "the MLP's width; default: 4 hidden"),
        "experts": (at_least(1, 10**4), "MLPs in each layer; default: 1"),
        "experts_per_token": (at_least(1, 10**4), "default: 1"),
    }
    for name, (kind, text) in kinds.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, help=text)
    parser.add_argument(
        "--gated", action="store_true", default=None, help="an MLP of three matrices"
    )


def model_from_arguments(args: argparse.Namespace) -> Model:
    """The model that was named, with what else was said of it."""
    names = [field.name for field in fields(Model) if hasattr(args, field.name)]
    said = {name: getattr(args, name) for name in names}
    return replace(args.model, **{n: v for n, v in said.items() if v is not None})


OF_A_FILE = {  # key: the field of `Cluster`, and its unit
    "peak_tflops": ("peak_flops", 1e12), "efficiency": ("efficiency", 1),
    "attention": ("attention", 1), "passes": ("passes", 1),
    "memory_gb": ("memory", 1e9), "memory_gb_s": ("memory_bandwidth", 1e9),
    "within_gb_s": ("link_within", 1e9), "between_gb_s": ("link_between", 1e9),
    "gpus_per_node": ("gpus_per_node", 1), "price": ("price", 1), "watts": ("watts", 1),
}  # fmt: skip


def _own_gpu(text: str) -> dict[str, float]:
    """An argparse type: what a JSON file says of a GPU, such as measure_gpu.py's."""
    allowed = f"a JSON file with numbers above 0 for {', '.join(OF_A_FILE)}"
    try:
        facts = json.loads(Path(text).read_text(encoding="utf-8"))
        if all(key in OF_A_FILE and value > 0 for key, value in facts.items()):
            if facts.get("gpus_per_node", 1) % 1 == 0:
                return facts
            allowed = "a file with a whole number of gpus_per_node"
    except OSError as problem:
        allowed = f"a file that can be read ({problem.strerror})"
    except (ValueError, TypeError, AttributeError):
        pass
    raise argparse.ArgumentTypeError(f"must be {allowed}")


def _bytes_of_link(text: str) -> float:
    """An argparse type: GB/s, also where bits are said to be meant."""
    number = text.removesuffix("GB/s").removesuffix("Gb/s").removesuffix("Gbps")
    bits = text.endswith(("Gb/s", "Gbps"))
    try:
        return between(0.001, 10**5)(number) / (8 if bits else 1)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError("must be GB/s, or like 200Gb/s") from None


def add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    """--gpu and --gpus, and what may differ from the GPU's data sheet."""
    add, positive = parser.add_argument, between(0.001, 10**5)
    unfitted = f"default: A100, of 80 GB. Data sheet only: {', '.join(UNFITTED)}"
    add("--gpu", choices=GPUS, default="A100", help=unfitted)
    add("--gpu-file", type=_own_gpu, default={},
        help="JSON of your own GPU, for what differs from --gpu")  # fmt: skip
    add("--gpus-per-node", type=at_least(1, 1024), help="default: 8 for most GPUs")
    add("--memory", type=positive, help="GB of a GPU, as it is sold")
    add("--reserve", type=between(0, 1000), help="GB for the driver, NCCL and gaps")
    add("--within", type=_bytes_of_link,
        help="GB/s of a GPU in a node, in one direction")  # fmt: skip
    add("--between", type=_bytes_of_link,
        help="GB/s of a GPU to other nodes, in one direction; or 200Gb/s")  # fmt: skip
    add("--precision", choices=PRECISIONS, default="bf16",
        help="of products; default: bf16")  # fmt: skip
    add("--price", type=between(0, 10**6), help="of a GPU for an hour")
    add("--tokens", type=between(1, 10**15), help="of the training: days, cost")


def cluster_from_arguments(
    parser: argparse.ArgumentParser, args: argparse.Namespace, gpus: int
) -> Cluster:
    """So many GPUs; ends the program if they do not fill their nodes."""
    found = GPUS[args.gpu]
    for key, value in args.gpu_file.items():
        field, unit = OF_A_FILE[key]
        new = unit * value
        if field.startswith("link"):
            new = getattr(found, field)._replace(bandwidth=new)
        found = replace(found, **{field: new})
    per_node = int(min(args.gpus_per_node or found.gpus_per_node, gpus))
    if gpus % per_node:
        allowed = f"must be up to {per_node}, or a multiple of {per_node}"
        parser.error(f"argument --gpus: {allowed}, not {gpus}")
    faster = PRECISIONS[args.precision]
    found = replace(
        found,
        peak_flops=faster * found.peak_flops,
        attention=found.attention / faster,  # stays in 16 bits
    )
    changes = {"gpus_per_node": per_node, "nodes": gpus // per_node}
    for name, unit in (
        ("memory", CARD_SHOWS * 1e9), ("reserve", 1e9), ("price", 1)
    ):  # fmt: skip
        if (value := getattr(args, name)) is not None:
            changes[name] = unit * value
    for name, share in ("within", SHARE_WITHIN), ("between", SHARE_BETWEEN):
        if value := getattr(args, name):
            link = getattr(found, f"link_{name}")
            changes[f"link_{name}"] = link._replace(bandwidth=share * 1e9 * value)
    return replace(found, **changes)


def add_strategy_arguments(
    parser: argparse.ArgumentParser, default: Strategy | None = None
) -> None:
    """The fields of `Strategy`; without a default what is not said may be anything."""
    degree = at_least(1, 100_000)
    kinds = {
        "data": (degree, "replicas; "),
        "tensor": (degree, "ranks that share each layer; "),
        "pipeline": (at_least(1, 128), "ranks with some of the layers; "),
        "context": (degree, "ranks that share a sequence; "),
        "shard_stage": (at_least(0, 3), "of ZeRO; "),
        "hybrid": (degree, "groups with all shards each; "),
        "micro_batch": (degree, "sequences; "),
        "chunks": (degree, "stages of a rank, if interleaved; "),
        "schedule": (SCHEDULES_BY_NAME if default else SEARCHED, ""),
        "recomputation": (RECOMPUTATIONS, ""),
        "sequence_parallel": (None, ""),
        "overlap": (None, "gradients travel during backward; "),
        "expert": (degree, "ranks that share out the experts; "),
    }
    add = parser.add_argument
    for name, (kind, text) in kinds.items():
        value = getattr(default, name, None)
        options: dict[str, Any] = (
            {"type": kind} if callable(kind) else {"choices": kind}
        )
        options = options if kind else {"action": "store_true"}
        text += f"default: {'the fastest' if value is None else value}"
        add(f"--{name.replace('_', '-')}", default=value, help=text, **options)
    add("--logit", type=degree,
        help="bytes of each at the peak; default: 4, as with a fused loss")  # fmt: skip
    add("--attention", choices=["fused", "plain"], default="fused",
        help="default: fused, which keeps no scores")  # fmt: skip
    add("--optimizer", choices=OPTIMISERS, default="adam",
        help="what a GPU keeps of it; default: adam")  # fmt: skip


def strategy_from_arguments(args: argparse.Namespace) -> dict:
    """What was said of a strategy, by field of `Strategy`."""
    said = {field.name: getattr(args, field.name, None) for field in fields(Strategy)}
    said |= {"fused_attention": args.attention == "fused"}
    said |= {"state": OPTIMISERS[args.optimizer]}
    return {name: value for name, value in said.items() if value is not None}
