from __future__ import annotations

import asyncio
import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from genericdp.cli import main

from tests.config.bounded import HEAD as POLICY
from tests.printed import resources_in
from tests.programs import quiet_grpc
from tests.world import Host

if TYPE_CHECKING:
    from asyncio.subprocess import Process

pytestmark = pytest.mark.slow

CONFIG = """
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/serial
    match: [{path: "/dev/ttyUSB*"}]
    replicas: 2
    inject:
      env: {SERIAL: $(device.path)}
"""
HEAD = CONFIG.partition("  - name")[0]
BY_DRA = """\
    servedBy: dra
    attributes: {port: $(device.name)ü, nothing: $(usb.serial)}
"""
AMOUNT = "example.com/serial=1"
EXAMPLE = Path(__file__).parents[2] / "examples/configs/usb-serial.yaml"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = Host(tmp_path / "host")
    host.plug("ttyUSB0")
    (tmp_path / "config.yaml").write_text(CONFIG)
    return host


def config_of(host: Host) -> Path:
    return host.directory.parent / "config.yaml"


def where(host: Host) -> list[str]:
    return [f"--config={config_of(host)}", f"--root={host.directory}"]


def once(capsys: Capture, host: Host, *arguments: str) -> tuple[int, str, str]:
    """Give exit code and output of one picture: here, as to start a process takes longer."""
    with quiet_grpc():
        code = main(["simulate", *where(host), "--once", *arguments])
    return code, *capsys.readouterr()


async def simulate(host: Host, *arguments: str) -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "genericdp", "simulate", *where(host), *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def ends(process: Process) -> str:
    """End it with Ctrl-C, which is a good end, and give what else it printed."""
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(60):
        out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def picture(process: Process) -> list[str]:
    """Read one picture: the lines up to the end of Allocatable."""
    lines: list[str] = []
    while not (
        lines and lines[-1].startswith("  ") and any("Allocatable:" in line for line in lines)
    ):
        lines += (await until_line(process, "\n")).splitlines()
    return [line for line in lines if line.startswith(("Cap", "Alloc", "  "))]


async def until_line(process: Process, text: str) -> str:
    """Read up to a line with this text; give all that was read."""
    assert process.stdout is not None
    read = ""
    async with asyncio.timeout(60):
        while text not in read:
            line = (await process.stdout.readline()).decode()
            assert line, read
            read += line
    return read


def test_one_picture_as_the_node_would_show_it(host: Host, capsys: Capture) -> None:
    code, out, err = once(capsys, host, f"--allocate={AMOUNT}")
    assert (code, err) == (0, "")
    assert out.splitlines()[1:] == [
        "Capacity and Allocatable:",
        "  example.com/serial:  2",
        "The container gets:",
        "  device      /dev/ttyUSB0 (rw) from /dev/ttyUSB0",
        "  env         SERIAL=/dev/ttyUSB0",
    ]


def test_a_picture_as_data_has_a_container_as_allocate_gives_it(
    host: Host, capsys: Capture
) -> None:
    code, out, _ = once(capsys, host, f"--allocate={AMOUNT}", "-o", "json")
    assert code == 0
    assert main(["allocate", *where(host), AMOUNT, "-o", "json"]) == 0
    shown = json.loads(out)
    (serial,) = resources_in(out).values()
    assert (serial["capacity"], serial["allocatable"]) == (2, 2)
    assert shown["container"] == json.loads(capsys.readouterr().out)["example.com/serial"]
    assert (shown["resourceSlices"], shown["error"], shown["news"]) == ([], "", "")
    _, as_yaml, _ = once(capsys, host, f"--allocate={AMOUNT}", "-o", "yaml")
    assert as_yaml.startswith("---\n")
    assert yaml.safe_load(as_yaml) == shown


@pytest.mark.parametrize(
    ("old", "new", "more", "said"),
    [
        ("match", "matches", "--once", "unknown key 'matches'"),
        (
            "",
            "",
            "--root={directory}/no",
            "does not exist (give --root a directory with dev/ and sys/",
        ),
        ("", "", "--allocate=example.com/no=1", "the config has no resource 'example.com/no' for"),
        ("", BY_DRA, f"--allocate={AMOUNT}", "the scheduler is not simulated: see genericdp"),
    ],
    ids=["config", "root", "resource", "scheduler"],
)
def test_what_it_cannot_begin_with_is_exit_code_2(
    old: str, new: str, more: str, said: str, host: Host, capsys: Capture
) -> None:
    text = CONFIG.replace(old, new) if old else CONFIG + new
    config_of(host).write_text(text)
    code, out, err = once(capsys, host, more.format(directory=host.directory))
    assert (code, out) == (2, "")
    assert said in err


def test_a_temporary_directory_with_too_long_a_path_is_told_as_such(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    code, out, err = once(capsys, host)
    assert (code, out) == (2, "")
    assert "but the path of a unix socket has at most 107: set TMPDIR to a shorter path" in err
    assert list(long.iterdir()) == []


def test_more_than_there_is_says_what_the_kubelet_would(host: Host, capsys: Capture) -> None:
    code, out, err = once(capsys, host, "--allocate=example.com/serial=3")
    assert (code, out) == (1, "")
    assert "requested number of devices unavailable for example.com/serial" in err
    assert "Traceback" not in err


def test_why_the_policy_leaves_a_device_out(host: Host, tmp_path: Path, capsys: Capture) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"{POLICY}devices: {{paths: [/dev/ttyUSB1]}}\n")
    text = CONFIG.replace("env: {SERIAL: $(device.path)}", "devices: [{path: $(device.path)}]")
    config_of(host).write_text(text)
    host.plug("ttyUSB1")
    code, out, _ = once(capsys, host, f"--policy={policy}")
    assert code == 0
    refusal = (
        "/dev/ttyUSB0: /dev/ttyUSB0 is not among the device nodes that are allowed"
        f" (policy {policy}:3 says devices: /dev/ttyUSB1)"
    )
    assert out.splitlines()[-2:] == ["Not offered:", f"  example.com/serial: {refusal}"]


def test_resources_without_devices_say_why_unless_they_are_many(
    host: Host, capsys: Capture
) -> None:
    names = [f"  - {{name: example.com/no{i}, match: [{{path: /dev/no{i}}}]}}\n" for i in range(6)]
    config_of(host).write_text(CONFIG + names[0])
    why = f"nothing on this node matches match[0] {{path: /dev/no0}} ({config_of(host)}:10)"
    assert once(capsys, host)[1].splitlines()[-2:] == ["No devices:", f"  example.com/no0: {why}"]
    config_of(host).write_text(CONFIG + "".join(names))
    why = f"genericdp discover {config_of(host)} --root {host.directory}"
    assert once(capsys, host)[1].splitlines()[-2:] == ["No devices:", f"  6 resources; why: {why}"]


NAMES = "exclusive: false, replicas: 2, match: [{path: /dev/ttyUSB0}], id: r{i}"


@pytest.mark.parametrize(
    ("inject", "cuts"),
    [
        ("env: {A{i}: b}", {"Capacity and Allocatable:": 30}),
        ("devices: [{path: /dev/no}]", {"Capacity:": 45, "Allocatable:": 45, "Unhealthy:": 45}),
    ],
)
def test_a_picture_of_many_resources_fits_on_a_screen(
    inject: str, cuts: dict[str, int], host: Host, capsys: Capture
) -> None:
    line = f"  - {{name: example.com/r{{i}}, {NAMES}, inject: {{{inject}}}}}\n"
    config_of(host).write_text(HEAD + "".join(line.replace("{i}", str(i)) for i in range(50)))
    lines = once(capsys, host)[1].splitlines()
    more = [line for line in lines if line.endswith(" more: -o json has all")]
    assert len(lines) <= 23
    assert [line for line in lines[1:] if not line.startswith(" ")] == [*cuts]
    assert more == [f"  and {left_out} more: -o json has all" for left_out in cuts.values()]


def test_a_warning_about_the_config_is_given_once(host: Host, capsys: Capture) -> None:
    probe = "health: [{open: {}, periodSeconds: 1, timeoutSeconds: 5}]"
    config_of(host).write_text(f"{CONFIG}    {probe}\n")
    code, _, errors = once(capsys, host)
    assert code == 0
    assert errors.count("timeoutSeconds") == 1


def test_more_than_64_devices_are_several_resource_slices_of_the_driver(
    host: Host, capsys: Capture
) -> None:
    text = CONFIG.replace("replicas: 2", "replicas: 70")
    plain = text.partition("resources:")[2].replace("serial", "plain").replace("USB*", "S0")
    config_of(host).write_text(f"{text}{BY_DRA}{plain}")
    words = ("--node-name=n", "--dra-driver=lab.example.com", "-o", "json")
    code, out, _ = once(capsys, host, *words)
    printed = json.loads(out)
    assert code == 0
    counts = {resource["name"]: resource["capacity"] for resource in printed["resources"]}
    assert counts == {"example.com/serial": 0, "example.com/plain": 0}
    slices = printed["resourceSlices"]
    assert [len(piece["devices"]) for piece in slices] == [64, 6]
    assert {piece["driver"] for piece in slices} == {"lab.example.com"}
    pools = {(piece["pool"]["name"], piece["pool"]["resourceSliceCount"]) for piece in slices}
    assert pools == {("n/example.com/serial", 2)}


async def test_the_first_picture_of_an_example_ends_with_what_to_do_next(host: Host) -> None:
    process = await simulate(host, f"--config={EXAMPLE}")
    assert "genericdp init my.yaml" in await until_line(process, "Next: ") + await ends(process)


async def test_changes_of_devices_and_of_the_config_show_at_once(host: Host) -> None:
    process = await simulate(host)
    assert (await picture(process))[1] == "  example.com/serial:  2"
    assert "genericdp allocate " in await until_line(process, "Next: ")
    host.plug("ttyUSB1")
    assert (await picture(process))[1] == "  example.com/serial:  4   (was 2)"
    host.unplug("ttyUSB0")
    assert await picture(process) == [
        "Capacity:",
        "  example.com/serial:  4",
        "Allocatable:",
        "  example.com/serial:  2   (was 4)",
    ]
    await until_line(process, "example.com/serial: ttyUSB0: /dev/ttyUSB0 does not exist")
    config_of(host).write_text(CONFIG.replace("match", "matches"))
    assert process.stderr is not None
    async with asyncio.timeout(60):
        while "cannot be used" not in (await process.stderr.readline()).decode():
            pass
    config_of(host).write_text(CONFIG)
    await until_line(process, "  the config on disk is active again; the node shows:\n")
    for text, counts in (
        (CONFIG.replace("SERIAL:", "OTHER:"), ("4", "2")),
        (CONFIG.replace("replicas: 2", "replicas: 3"), ("5   (was 4)", "3   (was 2)")),
    ):
        config_of(host).write_text(text)
        await until_line(process, "  a new config is active; the node shows:\n")
        found = await picture(process)
        assert found[1::2] == [f"  example.com/serial:  {count}" for count in counts]
    await ends(process)


async def test_another_reason_shows_at_once_though_the_counts_stay_the_same(host: Host) -> None:
    excluding = CONFIG.replace("    replicas", "    exclude: [{path: /dev/*0}]\n    replicas")
    config_of(host).write_text(excluding)
    process = await simulate(host)
    await until_line(process, "example.com/serial: /dev/ttyUSB0: excluded by the config")
    await until_line(process, "(Ctrl-C ends it")
    host.plug("ttyUSB10")
    read = await until_line(process, "example.com/serial: /dev/ttyUSB10: excluded by the config")
    assert "No devices:\n  example.com/serial: all that is matched" in read
    host.unplug("ttyUSB0")
    host.unplug("ttyUSB10")
    await until_line(process, "example.com/serial: nothing on this node matches match[0]")
    await ends(process)


async def test_resource_slices_show_what_claims_can_have_and_follow_changes(host: Host) -> None:
    config_of(host).write_text(CONFIG.replace("replicas: 2", "replicas: 30") + BY_DRA)
    process = await simulate(host, "--node-name=n")
    first = (await until_line(process, "(Ctrl-C ends it")).splitlines()
    start = first.index("ResourceSlices:")
    assert first[start + 1 : start + 3] == [
        "  n/example.com/serial, slice 1 of 1: 30 devices",
        '    ttyusb0-8acffaea: port "ttyUSB0ü", id "ttyUSB0"',
    ]
    assert (len(first), first[-2]) == (22, "  and 13 more: -o json has all")
    host.unplug("ttyUSB0")
    read = await until_line(process, "ttyUSB0: /dev/ttyUSB0 does not exist")
    assert "n/example.com/serial, slice 1 of 1: 0 devices\nUnhealthy:" in read
    await ends(process)
