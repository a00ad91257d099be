"""Measure what products, attention and memory of this GPU reach, for plan.py.

Run:      python demos/scale/measure_gpu.py --output my_gpu.json
Look for: attention is slower than products of matrices. The planner takes both, and the
          memory's bandwidth, from the file: plan.py --gpu-file my_gpu.json. What stands
          between products is not measured; it is that of --gpu.
Try:      --peak 312: as a share of the data sheet's TF/s, here an A100's. Without it
          the largest product counts as all that there is. Add to the file what you
          know: memory_gb, within_gb_s, between_gb_s, gpus_per_node, price, watts.
"""

import json
from functools import partial

import torch
from torch.nn.functional import scaled_dot_product_attention

from parallel_by_hand.devices.roofline import (
    RooflineOperation,
    copy_vector,
    least_seconds,
)
from sidebyside import between, device, output_file, program_parser, run_program


def product(tokens: int, hidden: int, numbers: torch.dtype) -> RooflineOperation:
    """The first product of an MLP."""
    x = torch.rand(tokens, hidden, device=device(), dtype=numbers)
    weight = torch.rand(hidden, 4 * hidden, device=device(), dtype=numbers)
    return RooflineOperation(
        "product", 8 * tokens * hidden**2, 0, partial(torch.mm, x, weight)
    )


def attention(tokens: int, numbers: torch.dtype) -> RooflineOperation:
    """Fused, causal, heads of 128; all scores count, as in `Cluster.attention`."""
    shape = 1, 8, tokens, 128
    q, k, v = torch.rand(3, *shape, device=device(), dtype=numbers)
    attend = partial(scaled_dot_product_attention, q, k, v, is_causal=True)
    return RooflineOperation("attention", 4 * 8 * 128 * tokens**2, 0, attend)


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--output", type=output_file, help="write a file for plan.py")
    parser.add_argument("--peak", type=between(0.001, 10**5), help="TF/s")
    args = parser.parse_args()
    gpu = device().type != "cpu"
    numbers = torch.bfloat16 if gpu else torch.float32
    tokens, hidden = (8192, 8192) if gpu else (256, 512)
    operations = [
        product(tokens, hidden, numbers),
        attention(tokens, numbers),
        copy_vector(),
    ]
    matrix, scores, copy = least_seconds(operations, rounds=10).items()
    reached, attended = (
        one.flops / seconds / 1e12 for one, seconds in (matrix, scores)
    )
    peak = args.peak or reached
    facts = {
        "peak_tflops": peak,
        "efficiency": reached / peak,
        "attention": attended / peak,
        "memory_gb_s": copy[0].bytes / copy[1] / 1e9,
    }
    print(f"on {device()}: product {reached:.3g} TF/s, attention {attended:.3g} TF/s, "
          f"memory {facts['memory_gb_s']:.3g} GB/s")  # fmt: skip
    if args.output:
        args.output.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        print(f"written: {args.output}")


if __name__ == "__main__":
    run_program(main)
