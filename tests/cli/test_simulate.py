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


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = Host(tmp_path / "host")
    host.plug("ttyUSB0")
    (tmp_path / "config.yaml").write_text(CONFIG)
    return host


async def simulate(host: Host, *arguments: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "genericdp",
        "simulate",
        f"--config={host.folder.parent / 'config.yaml'}",
        f"--root={host.folder}",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


def once(capsys: pytest.CaptureFixture[str], host: Host, *arguments: str) -> tuple[int, str, str]:
    """Give exit code and output of one picture: here, as to start a process takes longer."""
    words = [f"--config={host.folder.parent / 'config.yaml'}", f"--root={host.folder}", "--once"]
    with quiet_grpc():
        code = main(["simulate", *words, *arguments])
    return code, *capsys.readouterr()


async def finished(process: Process) -> tuple[int | None, str, str]:
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def picture(process: Process) -> list[str]:
    """Read one picture: the lines up to the end of Allocatable."""
    assert process.stdout is not None
    lines: list[str] = []
    async with asyncio.timeout(60):
        while not (
            lines and lines[-1].startswith("  ") and any("Allocatable:" in line for line in lines)
        ):
            line = (await process.stdout.readline()).decode()
            assert line, lines
            lines.append(line.rstrip("\n"))
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


async def test_one_picture_as_the_node_would_show_it(host: Host) -> None:
    process = await simulate(host, "--once", "--allocate=example.com/serial=1")
    code, out, err = await finished(process)
    assert (code, err) == (0, "")
    assert out.splitlines()[1:] == [
        "Capacity and Allocatable:",
        "  example.com/serial:  2",
        "The container gets:",
        "  device      /dev/ttyUSB0 (rw) from /dev/ttyUSB0",
        "  env         SERIAL=/dev/ttyUSB0",
    ]


def test_a_picture_as_json_has_a_container_as_allocate_gives_it(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    amount = "example.com/serial=1"
    code, out, _ = once(capsys, host, f"--allocate={amount}", "-o", "json")
    assert code == 0
    config = f"--config={host.folder.parent / 'config.yaml'}"
    assert main(["allocate", config, f"--root={host.folder}", amount, "-o", "json"]) == 0
    shown = json.loads(out)
    (serial,) = resources_in(out).values()
    assert (serial["capacity"], serial["allocatable"]) == (2, 2)
    assert shown["container"] == json.loads(capsys.readouterr().out)["example.com/serial"]
    assert (shown["resourceSlices"], shown["error"], shown["news"]) == ([], "", "")


def test_a_picture_as_yaml_is_a_document_of_its_own(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    pictures = [once(capsys, host, "-o", output)[1] for output in ("json", "yaml")]
    assert pictures[1].startswith("---\n")
    assert [yaml.safe_load(pictures[1])] == [*map(json.loads, pictures[0].splitlines())]


def refused(host: Host, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run ``simulate`` for something that it cannot begin with; give what it says."""
    config = f"--config={host.folder.parent / 'config.yaml'}"
    assert main(["simulate", "--once", config, f"--root={host.folder}", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


def test_a_config_it_cannot_use_is_exit_code_2(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    (host.folder.parent / "config.yaml").write_text(CONFIG.replace("match", "matches"))
    assert "unknown key 'matches'" in refused(host, capsys)


def test_a_root_without_a_machine_is_bad_usage(
    host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(host, capsys, f"--root={tmp_path / 'no'}")
    assert "does not exist (give --root a folder with dev/ and sys/ of a machine" in said


def test_a_temporary_folder_with_too_long_a_path_is_told_as_such(
    host: Host,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    said = refused(host, capsys)
    assert "but the path of a unix socket has at most 107: set TMPDIR to a shorter path" in said
    assert list(long.iterdir()) == []


def test_why_the_policy_leaves_a_device_out(
    host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginPolicy\n"
        "devices: {paths: [/dev/ttyUSB1]}\n"
    )
    text = CONFIG.replace("env: {SERIAL: $(device.path)}", "devices: [{path: $(device.path)}]")
    (tmp_path / "config.yaml").write_text(text)
    host.plug("ttyUSB1")
    code, out, _ = once(capsys, host, f"--policy={policy}")
    assert code == 0
    refusal = (
        "/dev/ttyUSB0: /dev/ttyUSB0 is not among the device nodes that are allowed"
        f" (policy {policy}:3 says devices: /dev/ttyUSB1)"
    )
    assert out.splitlines()[-2:] == ["Not offered:", f"  example.com/serial: {refusal}"]


def test_many_resources_without_devices_leave_the_screen_to_those_with_some(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [
        f"  - {{name: example.com/none{i}, match: [{{path: /dev/none{i}}}]}}\n" for i in range(6)
    ]
    path = host.folder.parent / "config.yaml"
    path.write_text(CONFIG + "".join(names))
    _, out, _ = once(capsys, host)
    why = f"genericdp discover {path} --root {host.folder}"
    assert out.splitlines()[-2:] == ["No devices:", f"  6 resources; why: {why}"]


NAMES = "exclusive: false, replicas: 2, match: [{path: /dev/ttyUSB0}], id: r{i}"


@pytest.mark.parametrize(
    ("inject", "cuts"),
    [
        ("env: {A{i}: b}", {"Capacity and Allocatable:": 30}),
        (
            "devices: [{path: /dev/no}]",
            {"Capacity:": 45, "Allocatable:": 45, "Unhealthy:": 45},
        ),
    ],
)
def test_a_picture_of_many_resources_fits_on_a_screen(
    inject: str, cuts: dict[str, int], host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    path = host.folder.parent / "config.yaml"
    head = CONFIG.partition("  - name")[0]
    names = (
        f"  - {{name: example.com/r{i}, {NAMES}, inject: {{{inject}}}}}\n".replace("{i}", str(i))
        for i in range(50)
    )
    path.write_text(head + "".join(names))
    lines = once(capsys, host)[1].splitlines()
    more = [line for line in lines if line.endswith(" more: -o json has all")]
    assert len(lines) <= 23
    assert [line for line in lines[1:] if not line.startswith(" ")] == [*cuts]
    assert more == [f"  and {left_out} more: -o json has all" for left_out in cuts.values()]


@pytest.mark.parametrize("is_example", [False, True])
async def test_the_first_picture_ends_with_what_to_do_next(host: Host, is_example: bool) -> None:
    example = Path(__file__).parents[2] / "examples/configs/usb-serial.yaml"
    process = await simulate(host, *([f"--config={example}"] if is_example else []))
    read = await until_line(process, "Next: ")
    process.send_signal(signal.SIGINT)
    code, rest, _ = await finished(process)
    said = "genericdp init my.yaml" if is_example else "genericdp allocate "
    assert (code, said in read + rest) == (0, True)


async def test_changes_show_at_once_and_control_c_is_a_good_end(host: Host) -> None:
    process = await simulate(host)
    assert (await picture(process))[1] == "  example.com/serial:  2"
    host.plug("ttyUSB1")
    assert (await picture(process))[1] == "  example.com/serial:  4   (was 2)"
    host.unplug("ttyUSB0")
    assert await picture(process) == [
        "Capacity:",
        "  example.com/serial:  4",
        "Allocatable:",
        "  example.com/serial:  2   (was 4)",
    ]
    process.send_signal(signal.SIGINT)
    code, out, _ = await finished(process)
    assert code == 0
    assert "example.com/serial: ttyUSB0: /dev/ttyUSB0 does not exist" in out


BY_DRA = """\
    servedBy: dra
    attributes: {port: $(device.name)ü, nothing: $(usb.serial)}
"""


async def test_resource_slices_show_what_claims_can_have_and_follow_changes(host: Host) -> None:
    text = CONFIG.replace("replicas: 2", "replicas: 30")
    (host.folder.parent / "config.yaml").write_text(text + BY_DRA)
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
    process.send_signal(signal.SIGINT)
    assert (await finished(process))[0] == 0


def test_more_than_64_devices_are_several_resource_slices(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    text = CONFIG.replace("replicas: 2", "replicas: 70")
    plain = text.partition("resources:")[2].replace("serial", "plain").replace("USB*", "S0")
    (host.folder.parent / "config.yaml").write_text(f"{text}{BY_DRA}{plain}")
    code, out, _ = once(capsys, host, "--node-name=n", "-o", "json")
    told = json.loads(out)
    assert code == 0
    counts = {resource["name"]: resource["capacity"] for resource in told["resources"]}
    assert counts == {"example.com/serial": 0, "example.com/plain": 0}
    assert [len(one["devices"]) for one in told["resourceSlices"]] == [64, 6]
    assert {one["pool"]["resourceSliceCount"] for one in told["resourceSlices"]} == {2}
    assert {one["pool"]["name"] for one in told["resourceSlices"]} == {"n/example.com/serial"}


def test_resource_slices_are_those_of_the_driver_that_is_named(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    (host.folder.parent / "config.yaml").write_text(CONFIG + BY_DRA)
    _, out, _ = once(capsys, host, "--dra-driver=lab.example.com", "-o", "json")
    assert {one["driver"] for one in json.loads(out)["resourceSlices"]} == {"lab.example.com"}


def test_there_is_no_scheduler_for_what_dra_serves(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    (host.folder.parent / "config.yaml").write_text(CONFIG + BY_DRA)
    code, out, err = once(capsys, host, "--allocate=example.com/serial=1")
    assert (code, out) == (2, "")
    assert "no stand-in for the scheduler: see genericdp allocate" in err


async def test_another_reason_shows_at_once_though_the_counts_stay_the_same(host: Host) -> None:
    path = host.folder.parent / "config.yaml"
    path.write_text(CONFIG.replace("    replicas", "    exclude: [{path: /dev/*0}]\n    replicas"))
    process = await simulate(host)
    await until_line(process, "example.com/serial: /dev/ttyUSB0: excluded by the config")
    await until_line(process, "(Ctrl-C ends it")
    host.plug("ttyUSB10")
    read = await until_line(process, "example.com/serial: /dev/ttyUSB10: excluded by the config")
    assert "No devices:\n  example.com/serial: all that is matched" in read
    host.unplug("ttyUSB0")
    host.unplug("ttyUSB10")
    await until_line(process, "example.com/serial: nothing on this node matches match[0]")
    process.send_signal(signal.SIGINT)
    assert (await finished(process))[0] == 0


async def test_a_config_that_is_corrected_or_replaced_shows_at_once(host: Host) -> None:
    path = host.folder.parent / "config.yaml"
    process = await simulate(host)
    await until_line(process, "(Ctrl-C ends it")
    assert process.stderr is not None
    path.write_text(CONFIG.replace("match", "matches"))
    async with asyncio.timeout(60):
        while "cannot be used" not in (await process.stderr.readline()).decode():
            pass
    path.write_text(CONFIG)
    await until_line(process, "  the config on disk is in force again; the node shows:\n")
    assert (await picture(process))[1] == "  example.com/serial:  2"
    path.write_text(CONFIG.replace("SERIAL:", "OTHER:"))
    await until_line(process, "  a new config is in force; the node shows:\n")
    assert (await picture(process))[1] == "  example.com/serial:  2"
    path.write_text(CONFIG.replace("replicas: 2", "replicas: 3"))
    await until_line(process, "  a new config is in force; the node shows:\n")
    assert (await picture(process))[1] == "  example.com/serial:  3   (was 2)"
    process.send_signal(signal.SIGINT)
    assert (await finished(process))[0] == 0


def test_more_than_there_is_says_what_the_kubelet_would(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = once(capsys, host, "--allocate=example.com/serial=3")
    assert (code, out) == (1, "")
    assert "requested number of devices unavailable for example.com/serial" in err
    assert "Traceback" not in err


def test_a_resource_that_the_config_lacks_is_bad_usage(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = once(capsys, host, "--allocate=example.com/no=1")
    assert (code, out) == (2, "")
    assert err == (
        "genericdp: the config has no resource 'example.com/no' for this node"
        " (it has: example.com/serial)\n"
    )


def test_a_warning_about_the_config_is_given_once(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    probe = "health: [{open: {}, periodSeconds: 1, timeoutSeconds: 5}]"
    (host.folder.parent / "config.yaml").write_text(f"{CONFIG}    {probe}\n")
    code, _, errors = once(capsys, host)
    assert code == 0
    assert errors.count("timeoutSeconds") == 1
