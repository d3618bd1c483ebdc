"""What is said of a call that fails for want of descriptors: real limits."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from genericdp.errors import KubeletError
from genericdp.kubelet.registration import RegistrationError, check, register
from genericdp.kubelet.server import keep_grpc
from tests.scarcity import spare_descriptors

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _kept() -> None:
    """As in the daemon: without what it keeps, gRPC aborts where it cannot open it."""
    keep_grpc()


async def test_a_lack_of_descriptors_is_not_taken_for_silence(short_folder: Path) -> None:
    """The reason is always the same, so that it is told once: it names no socket."""
    with spare_descriptors(0), pytest.raises(KubeletError) as caught:
        await check(short_folder / "genericdp-1.sock", timeout_seconds=5)
    assert str(caught.value) == "our own socket does not answer: descriptors run short"


async def test_what_grpc_says_ends_where_its_text_does(short_folder: Path) -> None:
    """Found by a new user: NUL bytes in the log."""
    with spare_descriptors(0), pytest.raises(RegistrationError) as caught:
        await register(short_folder, endpoint="e", resource="a/b", options=b"", timeout_seconds=5)
    assert str(caught.value).endswith("Too many open files")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("is_left", [True, False], ids=["left", "gone"])
async def test_a_kubelet_that_is_down_has_refused_nothing(
    short_folder: Path, is_left: bool
) -> None:
    """Somebody who reads this at night should look for the kubelet, not at the name."""
    if is_left:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(short_folder / "kubelet.sock"))
    with pytest.raises(RegistrationError) as caught:
        await register(short_folder, endpoint="e", resource="a/b", options=b"", timeout_seconds=5)
    assert str(caught.value) == (
        "nobody listens at kubelet.sock: the kubelet is down, or is starting"
    )
    assert not caught.value.permanent
