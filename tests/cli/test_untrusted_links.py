"""Links that an unprivileged user could redirect are not followed, with or without a policy."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.config.changing import ConfigMap
from tests.printed import resources_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cli.asking import Ask

NOBODY = 65534
SECRET = "root:$6$salt$only-root-may-read-this:19000:0:99999:7:::"
POLICY = (
    "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginPolicy\n"
    "devices: {}\nmounts: [{hostPath: %s}]\nfiles: [%s]\nenv: [A]\n"
)
VALUE = (
    "    values: {v: {file: %s}}\n"
    "    inject: {devices: [{path: $(device.path)}], env: {A: $(value.v)}}\n"
)
LINK = VALUE.replace("file", "link")
MOUNT = "    inject: {mounts: [{hostPath: %s, containerPath: /x}]}\n"
PROBE = '    health: [{file: {path: %s, regex: "^up$"}}]\n'
each_use = pytest.mark.parametrize(
    "what", [VALUE, LINK, MOUNT, PROBE], ids=["value", "link", "mount", "probe"]
)
RESOURCE = "  - name: example.com/r\n    match: [{path: /dev/null}]\n"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o600)
    return path


@pytest.fixture(params=["no-policy", "policy"])
def judge(request: pytest.FixtureRequest, tmp_path: Path, ask: Ask) -> Callable[[str, Path], str]:
    """Return what is said of the device by the commands that decide about it."""

    def judge(what: str, path: Path) -> str:
        ask.config(RESOURCE + what % path)
        ask.write("policy.yaml", POLICY % (tmp_path, tmp_path))
        words = "--config=config.yaml" + " --policy=policy.yaml" * (request.param == "policy")
        if what is PROBE:
            return "".join(ask(f"probe {words}", code=None))
        out, _ = ask(f"discover {words} -o json")
        assert SECRET not in out
        found = resources_in(out)["example.com/r"]
        return " ".join(entry["reason"] for entry in found["notOffered"])

    return judge


@pytest.mark.parametrize("owner", [0, NOBODY])
@pytest.mark.parametrize("mode", [0o755, 0o777])
@each_use
def test_a_link_that_not_only_the_administrator_can_redirect_leads_nowhere(
    what: str,
    mode: int,
    owner: int,
    tmp_path: Path,
    secret: Path,
    judge: Callable[[str, Path], str],
) -> None:
    if owner and os.getuid() != 0:
        pytest.skip("only root can give a link to another user")
    (link := tmp_path / "place/link").parent.mkdir()
    link.symlink_to(secret)
    for path in (link.parent, link) if owner else ():
        os.chown(path, owner, owner, follow_symlinks=False)
    link.parent.chmod(mode)
    secret.write_text(f"{SECRET if owner or mode == 0o777 else 'up'}\n")
    said = judge(what, link)
    assert SECRET not in said
    assert (f"the link {link} " in said) == bool(owner or mode == 0o777)


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Mount a ConfigMap's volume as a kubelet does: mode 0777, links of root's, read-only."""
    directory = tmp_path / "volume"

    def mounted(owner: int) -> Path:
        subprocess.run(["mount", "-t", "tmpfs", "none", directory], check=True)
        ConfigMap(directory / "v", {"state": "up\n"})
        for link in (directory / "v").iterdir():
            os.chown(link, owner, owner, follow_symlinks=False)
        (directory / "v").chmod(0o777)
        subprocess.run(["mount", "-o", "remount,ro", directory], check=True)
        return directory / "v/state"

    directory.mkdir()
    can_mount = subprocess.run(
        ["mount", "-t", "tmpfs", "none", directory], check=False, capture_output=True
    )
    if can_mount.returncode and not os.environ.get("CI"):
        pytest.skip(f"needs to mount: {can_mount.stderr.decode().strip()}")
    subprocess.run(["umount", directory], check=True)
    yield mounted
    subprocess.run(["umount", directory], check=True)


@each_use
@pytest.mark.parametrize("owner", [0, NOBODY])
def test_on_a_read_only_mount_a_directory_may_have_any_mode_but_not_any_owner(
    judge: Callable[[str, Path], str], volume: Callable[[int], Path], what: str, owner: int
) -> None:
    said = judge(what, volume(owner))
    assert ("can be turned by a user who is not root" in said) is bool(owner), said
    assert owner or "must not" not in said


@pytest.mark.parametrize("option", ["--config", "--policy"])
@pytest.mark.parametrize("layout", ["link", "config-map"])
def test_nothing_is_quoted_of_a_config_or_policy_behind_an_untrusted_link(
    secret: Path, ask: Ask, option: str, layout: str
) -> None:
    ask.config(RESOURCE)
    link = ask.write("open/c.yaml", "")
    link.parent.chmod(0o777)
    link.unlink()
    if layout == "link":
        link.symlink_to(secret)
    else:
        link.with_name("..data").symlink_to(secret.parent)
        link.symlink_to("..data/secret")
    words = f"validate {link}" if option == "--config" else f"validate --policy {link} config.yaml"
    for content in (SECRET, f"{SECRET}: 1", f"apiVersion: {SECRET!r}", f"*{SECRET}"):
        secret.write_text(f"{content}\n")
        said = "".join(ask(words, code=2))
        assert "salt" not in said
        assert "not shown: the link" in said
        assert "lies in a directory that every user can write to" in said
        assert f"check {secret} itself" in said
        assert "not shown" not in "".join(ask("validate", secret, code=2))
    # Sidecars that fetch configs keep them behind links in directories with mode 0777.
    secret.write_text(ask.config(RESOURCE).read_text())
    if option == "--config":
        assert "not shown" not in "".join(ask(words))
