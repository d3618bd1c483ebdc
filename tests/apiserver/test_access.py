from __future__ import annotations

import base64
import json
import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from genericdp.apiserver import SLICES, Access, ApiClient, in_cluster, of_kubeconfig
from genericdp.errors import ApiAccessError, ApiError

from tests.apiserver.server import ApiServer, make_certificates

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.apiserver.server import Certificates

    Json = dict[str, Any]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("others"))


async def reaches(read_access: Callable[[], Access]) -> str:
    """Return why a server cannot be asked; nothing if it can."""
    async with ApiClient(read_access) as client:
        try:
            await client.list(SLICES)
        except ApiError as error:
            return str(error)
    return ""


def kubeconfig(directory: Path, cluster: Json, user: Json, **others: Any) -> Path:
    content = {
        "clusters": [{"name": "other", "cluster": {}}, {"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
        **others,
    }
    path = directory / "kubeconfig"
    path.write_text(json.dumps(content))
    return path


async def test_a_pod_uses_its_service_account_whose_files_may_come_later_or_be_replaced(
    tmp_path: Path, certificates: Certificates, others: Certificates
) -> None:
    async with ApiServer(certificates=certificates, token="first") as server:
        read_access = partial(in_cluster, tmp_path, server.service_account(tmp_path))
        async with ApiClient(read_access) as client:

            async def fails(why: str) -> None:
                with pytest.raises(ApiError, match=why):
                    await client.list(SLICES)

            (tmp_path / "ca.crt").unlink()
            await fails(r"the CA of the API server .*/ca\.crt cannot be used: No such file")
            (tmp_path / "ca.crt").write_text("nothing")
            await fails("the CA of the API server cannot be used")
            shutil.copy(others.ca, tmp_path / "ca.crt")
            await fails("has a certificate that is not accepted: ")
            shutil.copy(certificates.ca, tmp_path / "ca.crt")
            async with client.watch(SLICES, resource_version="1") as events:
                server.token = "second"
                await fails(r"does not accept the token or certificate \(401\)")
                (tmp_path / "token").write_text("second\n")
                await client.list(SLICES)
                server.bookmark()
                assert (await anext(events))[0] == "BOOKMARK", "it needs no other connection"
            (tmp_path / "token").unlink()
            await fails(r"token .* cannot be used: No such file")
            (tmp_path / "token").write_text("second\nX-Other: 1")
            await fails("characters that no token has")


@pytest.mark.parametrize("by", ["ca", "name", "verification"])
async def test_a_server_that_is_no_longer_trusted_gets_no_token(
    tmp_path: Path, certificates: Certificates, others: Certificates, by: str
) -> None:
    async with ApiServer(certificates=certificates, token="first") as server:
        access = trusted = of_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig"))
        if by == "verification":
            access = trusted = replace(trusted, verify=False, ca=others.ca.read_bytes())
        withdrawn: Json = {
            "ca": {"ca": others.ca.read_bytes()},
            "name": {"server_name": "other.example"},
            "verification": {"verify": True},
        }
        async with ApiClient(lambda: access) as client:
            with pytest.raises(ApiError, match="does not answer"):
                async with client.watch(SLICES, resource_version="1") as events:
                    access = replace(trusted, token="second", **withdrawn[by])
                    requests = len(server.requests)
                    with pytest.raises(ApiError, match="certificate that is not accepted"):
                        await client.list(SLICES)
                    await anext(events)
            assert len(server.requests) == requests, "the token has been sent"
            access = trusted
            await client.list(SLICES)


@pytest.mark.parametrize(
    ("host", "url"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_the_address_in_a_cluster_comes_from_the_environment(
    tmp_path: Path, host: str, url: str
) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    for name in ("ca.crt", "token"):
        (tmp_path / name).touch()
    assert in_cluster(tmp_path, environ).server == url
    with pytest.raises(ApiAccessError, match="name a kubeconfig with --kubeconfig"):
        in_cluster(tmp_path, {})


async def test_a_kubeconfig_may_name_files_beside_it(
    tmp_path: Path, certificates: Certificates
) -> None:
    shutil.copy(certificates.ca, tmp_path / "ca.crt")
    (tmp_path / "token").write_text("secret")
    async with ApiServer(certificates=certificates, token="secret") as server:
        cluster = {"server": f"{server.url}/", "certificate-authority": "ca.crt"}
        path = kubeconfig(tmp_path, cluster, {"token": "other", "tokenFile": "token"})
        assert await reaches(partial(of_kubeconfig, path)) == ""


async def test_a_kubeconfig_may_have_a_client_certificate(
    tmp_path: Path, certificates: Certificates
) -> None:
    files = {
        "client-certificate": certificates.client_certificate,
        "client-key": certificates.client_key,
    }
    named = {key: str(file) for key, file in files.items()}
    as_data = {
        f"{key}-data": base64.b64encode(file.read_bytes()).decode() for key, file in files.items()
    }
    damaged = {**named, "client-certificate": str(certificates.client_key)}
    async with ApiServer(certificates=certificates, token="not ours") as server:
        cluster = {"server": server.url, "certificate-authority": str(certificates.ca)}
        for user, why in (
            (named, ""),
            (as_data, ""),
            ({}, "does not accept the token or certificate (401)"),
            (damaged, "the client certificate for the API server cannot be used"),
        ):
            refused = await reaches(partial(of_kubeconfig, kubeconfig(tmp_path, cluster, user)))
            assert (why in refused) if why else not refused


async def test_a_server_can_be_trusted_blindly_or_under_another_name(
    tmp_path: Path, certificates: Certificates
) -> None:
    async with ApiServer(certificates=certificates) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        cluster = {"server": url, "certificate-authority": str(certificates.ca)}
        for more, why in (
            ({}, "not valid for 'localhost'"),
            ({"tls-server-name": "127.0.0.1"}, ""),
            ({"insecure-skip-tls-verify": True}, ""),
            ({"certificate-authority": ""}, "has a certificate that is not accepted"),
        ):
            path = kubeconfig(tmp_path, {**cluster, **more}, {})
            refused = await reaches(partial(of_kubeconfig, path))
            assert (why in refused) if why else not refused


@pytest.mark.parametrize(
    ("cluster", "user", "others", "why"),
    [
        ({"server": "https://h"}, {"exec": {"command": "aws"}}, {}, "exec is not supported"),
        ({"server": "https://h"}, {"auth-provider": {"name": "x"}}, {}, "auth-provider is not"),
        ({"server": "https://h"}, {"username": "me", "password": "x"}, {}, "username is not"),
        ({"server": "https://h", "proxy-url": "http://p"}, {}, {}, "proxy-url is not supported"),
        ({"server": "unix:///x"}, {}, {}, "'unix:///x' is not an http or https URL"),
        ({}, {}, {}, "it is not what kubectl writes"),
        ({"server": "https://h", "certificate-authority-data": "?"}, {}, {}, "base64"),
        ({"server": "https://h"}, {}, {"current-context": "y"}, "it has no context 'y'"),
        ({"server": "https://h"}, {}, {"current-context": ""}, "it has no context"),
        ({"server": "https://h"}, {}, {"users": []}, "it has no user 'u'"),
        ({"server": "https://h"}, {}, {"contexts": 1}, "it is not what kubectl writes"),
        ({"server": "https://h"}, {}, {"clusters": ["c"]}, "it is not what kubectl writes"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_says_why(
    tmp_path: Path, cluster: Json, user: Json, others: Json, why: str
) -> None:
    with pytest.raises(ApiAccessError, match=why) as caught:
        of_kubeconfig(kubeconfig(tmp_path, cluster, user, **others))
    assert str(caught.value).startswith(f"kubeconfig {tmp_path}/kubeconfig cannot be used: ")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file or directory"),
        (b"", "not what kubectl writes"),
        (b"[", "while parsing"),
        (b"\xff\xfe\x00", "cannot be used: "),
        (b"[" * 100_000, "not what kubectl writes"),
        (b"clusters: &a [*a]", "not what kubectl writes"),
        (b" " * (1 << 20) + b" ", "it is larger than 1 MiB"),
        (b"- a\n" * 200_000, "not what kubectl writes"),
    ],
)
def test_a_file_that_is_no_kubeconfig_says_why(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ApiAccessError, match=why):
        of_kubeconfig(path)


async def test_only_regular_files_are_read(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, Path("/dev/zero")):
        with pytest.raises(
            ApiAccessError, match=rf"kubeconfig {path} cannot be used: .*not a file"
        ):
            of_kubeconfig(path)
    for cluster, user in (
        ({"certificate-authority": str(fifo)}, {}),
        ({}, {"tokenFile": str(fifo)}),
        ({}, {"client-certificate": str(fifo), "client-key": str(fifo)}),
    ):
        path = kubeconfig(tmp_path, {"server": "https://127.0.0.1:1", **cluster}, user)
        refused = await reaches(partial(of_kubeconfig, path))
        assert f"{fifo} cannot be used: it is a FIFO, not a file" in refused


def test_secrets_are_not_shown() -> None:
    access = Access(server="https://h", token="secret", key=b"secret")
    assert "secret" not in repr(access)
