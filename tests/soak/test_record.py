"""The soak's record says of each device what a list may say, and nothing else."""

from __future__ import annotations

from tests.soak.config import KINDS, PLAIN, VOLUME, Places, Spec
from tests.soak.record import HEALTHY, UNHEALTHY, Record

PLACES = Places(folder="soak", health="/health")
MAYBE = frozenset({UNHEALTHY, ""})


def record_with(*nodes: str) -> Record:
    record = Record(PLACES, tuple(KINDS))
    for node in nodes:
        record.plug(node, 1.0)
    record.settle(1.0)
    return record


def test_what_is_plugged_and_configured_is_healthy_with_all_its_shares() -> None:
    record = record_with("alpha-0", "loop-1")
    specs = (Spec(type="alpha", replicas=2), *record.on_disk[VOLUME][1:])
    assert record.write(VOLUME, specs, 2.0).updated == {"alpha"}
    assert record.allowed("alpha", 3.0) == {
        "soak_alpha-0": {HEALTHY},
        "soak_alpha-0::1": {HEALTHY},
    }
    assert record.allowed("loop", 3.0) == {"loop33": {HEALTHY}}


def test_a_device_that_its_probe_does_not_find_well_is_unhealthy() -> None:
    record = record_with("file-0")
    record.set_health("file-0", well=False)
    assert record.allowed("file", 2.0) == {"soak_file-0": {UNHEALTHY}}


def test_what_vanished_is_kept_as_long_as_its_resource_says() -> None:
    record = record_with("alpha-0", "beta-0", "gamma-0")
    for node in ("alpha-0", "beta-0", "gamma-0"):
        record.unplug(node, 10.0)
    assert record.allowed("alpha", 10.1) == {}
    assert record.allowed("beta", 3000.0)["soak_beta-0"] == {UNHEALTHY}
    assert record.allowed("gamma", 12.9)["soak_gamma-0"] == {UNHEALTHY}
    assert record.allowed("gamma", 13.1)["soak_gamma-0"] == MAYBE
    record.settle(10.5)
    assert record.allowed("gamma", 13.6) == {}
    assert record.allowed("gamma", 13.6, patience=1.0)["soak_gamma-0"] == MAYBE


def test_a_list_may_change_by_itself_when_what_vanished_is_forgotten() -> None:
    record = record_with("alpha-0", "beta-0")
    for node in ("alpha-0", "beta-0"):
        record.unplug(node, 10.0)
    record.settle(10.5)
    times = ((10.0, 11.0), (3600.0, 3608.0), (3600.0, 3610.0), (3611.0, 3700.0), (3612.0, 3700.0))
    told = [record.may_forget("beta", *one, patience=1.0) for one in times]
    assert told == [False, False, True, True, False]
    assert not any(record.may_forget("alpha", *one, patience=1.0) for one in times)


def test_what_was_there_for_a_moment_need_not_have_been_listed() -> None:
    record = record_with()
    record.blink("beta-0", 10.0)
    assert record.allowed("beta", 11.0)["soak_beta-0"] == MAYBE


def test_what_no_longer_matches_counts_as_vanished_and_comes_back() -> None:
    record = record_with("beta-5")
    specs = {spec.type: spec for spec in record.on_disk[VOLUME]}
    record.write(VOLUME, tuple({**specs, "beta": Spec(type="beta", numbers="[0-3]")}.values()), 5.0)
    assert record.allowed("beta", 6.0)["soak_beta-5"] == {UNHEALTHY}
    record.write(VOLUME, tuple(specs.values()), 7.0)
    assert record.allowed("beta", 8.0) == {"soak_beta-5": {HEALTHY}}


def test_nothing_is_in_force_before_every_source_is_good_again() -> None:
    record = record_with("more-0")
    record.breaks(VOLUME, "no YAML")
    without = tuple(spec for spec in record.on_disk[PLAIN] if spec.type != "more")
    assert not record.would_change(PLAIN, without).touched
    assert not record.write(PLAIN, without, 5.0).touched
    assert record.allowed("more", 6.0)
    assert record.write(VOLUME, record.on_disk[VOLUME], 7.0).removed == {"more"}
    assert record.allowed("more", 8.0) == {}


def test_another_daemon_knows_nothing_of_what_was_there_before() -> None:
    record = record_with("beta-0")
    record.unplug("beta-0", 5.0)
    record.forget_gone()
    assert record.allowed("beta", 6.0) == {}


def test_another_option_for_the_kubelet_is_told_from_a_change_in_place() -> None:
    record = record_with()
    specs = (Spec(type="alpha", prefer="none"), Spec(type="beta", replicas=3))
    found = record.would_change(VOLUME, specs)
    assert found.anew == {"alpha"}
    assert found.updated == {"beta"}
    assert found.removed == {"gamma", "loop", "file", "exec"}
