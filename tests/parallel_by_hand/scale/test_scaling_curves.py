"""Measured, simulated and published series are what they say, and look it."""

from parallel_by_hand.scale.scaling_curves import (
    ScalingSeries,
    draw_scaling,
    measured_series,
    published_series,
    strong_series,
)


def test_published_points_are_drawn_as_they_are_printed():
    of_tables = {series.name: series for series in published_series()}
    assert of_tables["Table 1"].throughput[0] == 137
    assert of_tables["Table 2, ZeRO-3"].throughput == [144, 88, 44]
    assert {series.source for series in of_tables.values()} == {"published"}


def test_the_measured_points_are_one_rank_and_two_of_this_machine():
    series = measured_series(rounds=1)
    assert [(one.name, one.source) for one in series] == [
        ("strong", "measured"), ("weak", "measured"),
    ]  # fmt: skip
    for one in series:
        assert one.workers == [1, 2]
        assert min(one.throughput) > 0 and one.relative[0] == 1
    strong, weak = series
    assert strong.throughput[1] == weak.throughput[1], "16 sequences on two ranks"


def test_measured_simulated_and_published_series_are_told_apart_in_the_figure():
    made = ScalingSeries("strong", "measured", [1, 2], [4.0, 3.0])
    series = [made, strong_series("PTD", (96, 1536)), published_series()[0]]
    fig = draw_scaling({"strong scaling": series, "weak scaling": series})
    looks = [(line.get_marker(), line.get_linestyle()) for line in fig.axes[0].lines]
    assert looks == [("s", ":"), ("None", "-"), ("o", "-")]
    for one in series:
        assert f"{one.source} {one.name}: {one.relative[-1]:.2f}" in fig.alt
