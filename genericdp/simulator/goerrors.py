"""Errors in the words of the kubelet, which is written in Go."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import grpc

if TYPE_CHECKING:
    from grpc.aio import AioRpcError

_IRREGULAR = {grpc.StatusCode.CANCELLED: "Canceled"}
_WORDING = {"Deadline Exceeded": "context deadline exceeded"}


class KubeletError(Exception):
    """What a call inside the kubelet ended with; its text is the kubelet's."""


def rpc_error(code: grpc.StatusCode, description: str) -> str:
    """Give a failed call as Go's gRPC prints it."""
    words = (word.capitalize() for word in code.name.split("_"))
    name = _IRREGULAR.get(code) or "".join(words)
    return f"rpc error: code = {name} desc = {_WORDING.get(description, description)}"


def from_rpc(error: AioRpcError) -> KubeletError:
    """Give what the kubelet makes of a call that a plugin failed."""
    return KubeletError(rpc_error(error.code(), error.details() or ""))


def connection_closing() -> KubeletError:
    """Give what a call ends with when the kubelet itself closes its connection."""
    description = "grpc: the client connection is closing"
    return KubeletError(rpc_error(grpc.StatusCode.CANCELLED, description))


def quoted(text: str) -> str:
    """Quote a text as Go's ``%q`` does."""
    return json.dumps(text, ensure_ascii=False)
