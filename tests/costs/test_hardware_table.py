"""The table of accelerators refuses what it does not know, and figures in other units, by their names."""

from __future__ import annotations

from importlib.resources import files

import pytest

from anyformer.costs.hardware import BOUNDS, HARDWARE, hardware_table
from anyformer.describe import UserError

TABLE = files("anyformer.costs").joinpath("hardware.toml").read_text(encoding="utf-8")


def refusal(name: str, right: str, wrong: str) -> str:
    """The error of the table with another line of one accelerator."""
    before, _, after = TABLE.partition(f"\n[{name}]\n")
    own, _, rest = after.partition("\n\n")
    assert own.count(right) == 1, own
    with pytest.raises(UserError) as error:
        hardware_table(f"{before}\n[{name}]\n{own.replace(right, wrong)}\n\n{rest}")
    return str(error.value)


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('reached = "ada"', 'reached = "adaa"', "reached = 'adaa'; did you mean 'ada'"),
        ("memory = 44.4", "memroy = 44.4", "'memroy', which is none of a chip's figures; did you mean 'memory'"),
        ("memory = 44.4\n", "", "no 'memory'"),
    ],
)
def test_names_are_those_of_the_table(right, wrong, said):
    assert f"hardware.toml: [l40s] has {said}" in refusal("l40s", right, wrong)


@pytest.mark.parametrize(
    ("name", "right", "wrong", "said"),
    [
        ("h200", "fp16 = 989.4", "fp16 = 989400", "peaks.fp16 = 989400"),  # GFLOP/s
        ("h200", "fp16 = 989.4", "fp16 = 9.894e14", "peaks.fp16 = 9.894e"),
        ("h200", "bandwidth = 4800", "bandwidth = 4.8", "bandwidth = 4.8"),  # TB/s
        ("h200", "bandwidth = 4800", "bandwidth = 4.8e12", "bandwidth = 4.8e"),
        ("h200", "memory = 139.8", "memory = 150109000000", "memory = 1.50109e"),
        ("h200", "memory = 139.8", "memory = 143155", "memory = 143155"),  # MiB
        ("b200", "link = 900", "link = 7200", "link = 7200, which should be"),  # Gb/s
        ("h200", "bf16 = 989.4", "bf16 = 0.9894", "peaks.bf16 = 0.9894, less than fp32 with 67"),  # PFLOP/s
        ("h200", "link = 450", "link = 3600", "link = 3600"),
        ("a100", "link = 300", "link = 2400", "link = 2400"),
        ("h200", "link = 450", "link = 0.45", "link = 0.45, which should be"),  # TB/s
        ("v100", "link = 150", "link = 1200", "link = 1200, more than 0.5 of its bandwidth, 900"),
        ("h200", "network = 50", "network = 400", "network = 400"),  # Gb/s
        ("h200", "domain = 8", "domain = 0", "domain = 0"),
        ("h200", "power = 700", "power = 7000000", "power = 7e"),
        ("h200", "power = 700", "power = 0.7", "power = 0.7"),  # kW
        ("m1", "launch = 5", "launch = 5000", "launch = 5000"),  # ns
        ("m1", "launch = 5", "launch = 5e-6", "launch = 5e-06"),
    ],
)
def test_a_figure_in_another_unit_is_refused(name, right, wrong, said):
    assert f"hardware.toml: [{name}] has {said}" in refusal(name, right, wrong)


@pytest.mark.parametrize("field", BOUNDS)
def test_no_figure_is_at_its_bound(field):
    """So that the next generation's pass; the units of a bound are those of the file."""
    least, most, unit = BOUNDS[field]
    figures = {"peaks": 1e12, "bandwidth": 1e9, "memory": 2**30, "link": 1e9, "network": 1e9, "launch": 1e-6}
    for item in HARDWARE.values():
        found = item.peaks.values() if field == "peaks" else [getattr(item, field)]
        for figure in found:
            if figure is not None and not (field == "domain" and figure == 1):
                assert 2 * least <= figure / figures.get(field, 1) <= most / 2, (item.name, unit)
