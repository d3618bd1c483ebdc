"""Claims that are allocated again before the kubelet has unprepared them, or end meanwhile."""

from __future__ import annotations

from pathlib import Path

from tests.dra.claims import Machine, Process


async def test_a_prepared_claim_gets_no_more_hardware_while_a_record_cannot_be_read(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, "ttyUSB0", "ttyUSB1", replicas=2)
    (first, share, second, _) = machine.shares
    process = Process(machine, tmp_path)
    for uid, name in (("mine", first), ("damaged", second)):
        machine.allocate(uid, [name])
        assert await process.prepare(uid) == ""
    (tmp_path / "claims/damaged.json").write_text("{")
    process = Process(machine, tmp_path)
    assert await process.prepare("mine") == ""
    for more in (second, share):
        machine.allocate("mine", [first, more])
        assert "damaged.json does not say which hardware" in await process.prepare("mine")
    machine.allocate("mine", [first])
    assert await process.prepare("mine") == ""
    (tmp_path / "claims/damaged.json").unlink()
    assert await process.preparer.honor_markers()
    machine.allocate("mine", [first, share])
    assert await process.prepare("mine") == ""
