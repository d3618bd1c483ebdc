"""What shows that a device no longer works: pulses that do not come, a chip that is too hot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.cli.probe import ONE_RUN
from tests.hosts.hosts import Host, told

if TYPE_CHECKING:
    from pathlib import Path


def test_of_a_source_of_pulses_one_run_says_what_it_cannot_tell(tmp_path: Path) -> None:
    host = Host("pps")
    root = host.build(tmp_path)
    probed = told("probe", config=host.config, root=root).splitlines()
    beating, silent = (line for line in probed if " pps_12.-1 " in line or " ttyAMA0 " in line)
    assert " passed " in beating
    assert beating.endswith(ONE_RUN)
    assert silent.endswith("/assert is '0.000000000#0', not matching '#[1-9]'")


@pytest.mark.parametrize(
    ("temperature", "trip_point", "why"),
    [
        ("94800", "94800", ""),
        ("95050", "94800", "'95050', more than 94800"),
        ("95050", "", "'95050', more than 95000"),  # an older driver has none
        ("-89700", "94800", "'-89700', less than -40000"),
    ],
)
def test_an_accelerator_is_well_up_to_its_own_trip_point(
    tmp_path: Path, temperature: str, trip_point: str, why: str
) -> None:
    host = Host("coral-tpu")
    root = host.build(tmp_path)
    (apex,) = root.glob("sys/devices/*/*/*/apex/apex_0")
    (apex / "temp").write_text(f"{temperature}\n")
    (apex / "trip_point2_temp").unlink()
    if trip_point:
        (apex / "trip_point2_temp").write_text(f"{trip_point}\n")
    lines = told("probe", "--device=0000:04:00.0", config=host.config, root=root).splitlines()
    assert lines[1].endswith(why)
    assert (" failed " in lines[1]) == bool(why)


def test_an_accelerator_whose_trip_point_is_no_number_is_not_offered(tmp_path: Path) -> None:
    host = Host("coral-tpu")
    root = host.build(tmp_path)
    (apex,) = root.glob("sys/devices/*/*/*/apex/apex_0")
    (apex / "trip_point2_temp").write_text("hot\n")
    (line,) = (
        line
        for line in told("discover", config=host.config, root=root).splitlines()
        if "hot" in line
    )
    assert line.endswith("'$(attribute.trip_point2_temp:-95000)' gives 'hot', which is no number")
