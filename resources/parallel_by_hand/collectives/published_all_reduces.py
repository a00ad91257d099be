"""Published times of all-reduce on GPUs, as nccl-tests prints them."""

H100_RANKS = 16
H100_SOURCE = "all_reduce_perf on 2 x 8 H100, InfiniBand (dstack's documentation)"
"""The example "Nebius" of https://github.com/dstackai/dstack, section NCCL tests: two
machines with eight NVIDIA H100 each, out of place, float32."""

H100_MICROSECONDS = {
    8: 45.72,
    16: 29.92,
    32: 30.10,
    64: 34.48,
    128: 30.38,
    256: 30.48,
    512: 30.45,
    1_024: 31.36,
    2_048: 32.27,
    4_096: 36.04,
    8_192: 37.24,
    16_384: 37.22,
    32_768: 43.82,
    65_536: 37.85,
    131_072: 43.10,
    262_144: 58.59,
    524_288: 97.88,
    1_048_576: 87.08,
    2_097_152: 99.06,
    4_194_304: 110.14,
    8_388_608: 154.48,
    16_777_216: 210.33,
    33_554_432: 274.23,
    67_108_864: 472.43,
    134_217_728: 759.58,
    268_435_456: 1305.66,
    536_870_912: 2379.38,
    1_073_741_824: 4511.97,
    2_147_483_648: 8776.26,
    4_294_967_296: 17407.8,
    8_589_934_592: 34448.4,
}
"""Bytes of the tensor: microseconds of the all-reduce."""
