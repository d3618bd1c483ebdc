"""``/metrics``, as Prometheus' own parsers read it."""

from __future__ import annotations

import pytest
from genericdp.config.files import Loaded
from genericdp.config.reload import ConfigState
from genericdp.status.metrics import MAX_DEVICES, MAX_PER_RESOURCE, METRICS, PREFIX, exposition
from genericdp.status.state import NOT_YET_DECIDED, DaemonState
from genericdp.tally import BOUNDS, Tally
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.status.states import NAME, POLICY, REFUSED, declared, device, devices, resource, state

LOADED = Loaded(digest="a")
LABELS = {each_metric.name.removesuffix("_total"): each_metric.labels for each_metric in METRICS}


@pytest.fixture
def tally() -> Tally:
    tally = Tally()
    tally.keep({NAME: declared()})
    tally.requested("get", "success")
    return tally


def families(tally: Tally, of: DaemonState, *, each_device: bool = True) -> dict[str, Metric]:
    body = exposition(of, tally, each_device=each_device)
    return {family.name: family for family in text_string_to_metric_families(body.decode())}


def values(metrics: dict[str, Metric]) -> dict[str, float]:
    """Each sample that is not of a histogram's bucket, as ``name{label,…}``."""
    return {
        f"{each.name.removeprefix(PREFIX)}{{{','.join(map(each.labels.__getitem__, labels))}}}": (
            each.value
        )
        for metric in metrics.values()
        for labels in [LABELS.get(metric.name, ())]
        for each in metric.samples
        if not each.name.endswith("_bucket")
    }


def test_every_metric_is_there_with_its_type_labels_and_meaning(tally: Tally) -> None:
    totals = tally.of(NAME)
    totals.allocated("success", 0.1)
    totals.probed(0, ok=True, seconds=0.1)
    totals.hooked("preStart", ok=True)
    totals.forgot(0)
    totals.updates += 1
    totals.registrations["success"] += 1
    tally.happened("add")
    tally.discovery.add(0.1)
    tally.reloads["applied"] += 1
    gone = devices(*(device(number, reason="gone") for number in range(MAX_PER_RESOURCE + 1)))
    others = (
        resource("example.com/gone", devices=gone),
        resource("example.com/b", devices=NOT_YET_DECIDED),
    )
    found = families(tally, state(resource(), *others))
    for entry in METRICS:
        metric = found.pop(entry.name.removesuffix("_total"))
        assert metric.type == entry.kind
        assert metric.documentation == entry.meaning
        assert metric.samples, entry.name
        for sample in metric.samples:
            assert sample.labels.keys() - {"le"} == set(entry.labels)
    # No other is, but those of any process: the library's own registry has python_… as well.
    assert {name.partition("_")[0] for name in found} == {"process"}


def test_what_was_counted_is_shown(tally: Tally) -> None:
    totals = tally.of(NAME)
    totals.allocated("success", 0.0007)
    totals.allocated("unusable", 0.3)
    totals.registrations["refused"] += 2
    totals.updates += 3
    totals.probed(0, ok=False, seconds=0.02)
    totals.hooked("preStart", ok=True)
    totals.forgot(0)
    for kind in ("add", "implode"):  # a future kernel may know more
        tally.happened(kind)
    tally.reloads["refused"] += 1
    found = families(tally, state(resource()))
    shown = values(found)
    expected = {
        f"devices{{{NAME},Healthy}}": 1,
        f"devices{{{NAME},Unhealthy}}": 1,
        f"device_unhealthy{{{NAME},a0,gone}}": None,
        f"device_unhealthy{{{NAME},a1,gone}}": 1,
        f"unhealthy{{{NAME},gone}}": 1,
        f"devices_expected{{{NAME}}}": 4,
        f"devices_expected_max{{{NAME}}}": 8,
        f"devices_missing{{{NAME}}}": 3,
        f"devices_surplus{{{NAME}}}": 0,
        f"devices_allocated{{{NAME}}}": 1,
        f"registered{{{NAME}}}": 1,
        f"resource_contested{{{NAME}}}": 1,
        f"not_offered{{{NAME},taken}}": 1,
        f"allocations_total{{{NAME},success}}": 1,
        f"allocations_total{{{NAME},unusable}}": 1,
        f"allocations_total{{{NAME},timeout}}": None,
        "allocation_duration_seconds_count{}": 2,
        "allocation_duration_seconds_sum{}": pytest.approx(0.3007),
        f"registrations_total{{{NAME},refused}}": 2,
        f"stream_updates_total{{{NAME}}}": 3,
        f"probe_results_total{{{NAME},exec-0,failure}}": 1,
        "probe_duration_seconds_count{}": 1,
        f"probe_results_total{{{NAME},kernelLog-1,failure}}": None,
        f"hook_results_total{{{NAME},preStart,success}}": 1,
        f"hook_results_total{{{NAME},preStart,failure}}": None,
        f"devices_forgotten_total{{{NAME}}}": 0,
        "device_events_total{add}": 1,
        "device_events_total{other}": 1,
        "config_reloads_total{refused}": 1,
        "config_valid{}": 1,
        "config_last_success_timestamp_seconds{}": 1500,
        f"config_hash_info{{{'ab' * 32}}}": 1,
        f"policy_hash_info{{{POLICY.sha256}}}": 1,
        "descriptors_used{}": 30,
        "descriptors_limit{}": 1024,
    }
    assert {name: shown.get(name) for name in expected} == expected


def test_each_duration_is_counted_below_every_bound_that_it_does_not_exceed(tally: Tally) -> None:
    seconds = [0.0, *BOUNDS, *(bound * 1.01 for bound in BOUNDS), 1e6]
    for each_second in seconds:
        tally.of(NAME).allocated("success", each_second)
    found = families(tally, state(resource()))["genericdp_allocation_duration_seconds"]
    buckets = {
        sample.labels["le"]: sample.value for sample in found.samples if "le" in sample.labels
    }
    assert buckets == {
        **{str(bound): sum(second <= bound for second in seconds) for bound in BOUNDS},
        "+Inf": len(seconds),
    }


def test_what_is_no_longer_in_the_config_is_not_counted(tally: Tally) -> None:
    """A result may come from a probe that a reload has removed: no series comes back by that."""
    counted = tally.of(NAME)
    counted.probed(0, ok=False, seconds=0.1)
    counted.hooked("allocate", ok=True)
    tally.keep({NAME: declared(health=()), "example.com/b": declared("example.com/b")})
    for index in (0, 1, 7):
        counted.probed(index, ok=False, seconds=0.1)
    leaving = tally.of("example.com/b")
    tally.keep({NAME: declared(health=())})
    leaving.updates += 1
    counted.probed(0, ok=False, seconds=0.1)
    shown = values(families(tally, state(resource(), resource("example.com/b"))))
    assert shown[f"hook_results_total{{{NAME},allocate,success}}"] == 1
    assert not [name for name in shown if name.startswith("probe_results")]
    assert "stream_updates_total{example.com/b}" not in shown
    tally.keep({NAME: declared(), "example.com/b": declared("example.com/b")})
    shown = values(families(tally, state(resource(), resource("example.com/b"))))
    assert f"probe_results_total{{{NAME},exec-0,failure}}" not in shown
    assert "stream_updates_total{example.com/b}" not in shown


@pytest.mark.parametrize(
    ("config", "valid", "since", "hashes"),
    [
        pytest.param(ConfigState(), 0, 0, 0, id="none"),
        pytest.param(ConfigState(loaded=LOADED, since=5.0), 1, 5, 1, id="in-force"),
        pytest.param(
            ConfigState(loaded=LOADED, since=5.0, refused=REFUSED, differs_since=7.0),
            0,
            5,
            1,
            id="refused-on-disk",
        ),
        pytest.param(
            ConfigState(loaded=LOADED, since=5.0, refused=REFUSED, from_state_dir=True),
            0,
            0,
            1,
            id="last-good-one-of-an-earlier-run",
        ),
    ],
)
def test_how_the_config_stands_is_shown(
    tally: Tally, config: ConfigState, valid: int, since: float, hashes: int
) -> None:
    found = families(tally, state(config=config))
    shown = values(found)
    assert shown["config_valid{}"] == valid
    assert shown["config_last_success_timestamp_seconds{}"] == since
    assert len(found["genericdp_config_hash_info"].samples) == hashes
    assert found["genericdp_policy_hash_info"].samples == [], "none has a policy"


def test_of_very_many_devices_some_have_no_series_and_that_is_told(tally: Tally) -> None:
    count = MAX_PER_RESOURCE + 5
    sick = devices(*(device(number, reason="gone") for number in range(count)))
    more = [resource(f"example.com/{i}", devices=sick) for i in range(11)]
    found = families(tally, state(*more))
    assert len(found["genericdp_device_unhealthy"].samples) == MAX_DEVICES
    shown = values(found)
    assert shown["device_series_left_out{}"] == 11 * count - MAX_DEVICES
    assert shown["unhealthy{example.com/10,gone}"] == count
    few = families(tally, state(*more), each_device=False)
    assert few["genericdp_device_unhealthy"].samples == []
    assert values(few)["unhealthy{example.com/10,gone}"] == count


def test_a_resource_that_has_not_been_decided_yet_has_no_devices(tally: Tally) -> None:
    shown = values(families(tally, state(resource("example.com/new", devices=NOT_YET_DECIDED))))
    assert {name for name in shown if "example.com/new" in name} == {
        "registered{example.com/new}",
        "resource_contested{example.com/new}",
        "resource_empty{example.com/new,undecided}",
    }
    assert not [name for name in shown if NAME in name]


def test_whatever_an_id_holds_is_read_as_it_is(tally: Tally) -> None:
    odd = 'a"} 1\n# \\{<script>'
    spec = resource(devices=devices(device(0, device_id=odd, reason="gone")))
    (sample,) = families(tally, state(spec))["genericdp_device_unhealthy"].samples
    assert sample.labels["device"] == odd
