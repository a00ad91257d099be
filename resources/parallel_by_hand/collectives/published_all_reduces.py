"""Published times of all-reduce on GPUs, as nccl-tests prints them."""

from sidebyside.course.datasets import read_table

H100_RANKS = 16
H100_SOURCE = "all_reduce_perf on 2 x 8 H100, InfiniBand (dstack's documentation)"
"""The example "Nebius" of https://github.com/dstackai/dstack, section NCCL tests: two
machines with eight NVIDIA H100 each, out of place, float32."""

H100_MICROSECONDS = {
    int(row["bytes"]): float(row["microseconds"])
    for row in read_table("h100_all_reduce")
}
"""Bytes of the tensor: microseconds of the all-reduce."""
