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


async def test_a_pod_uses_its_service_account_and_a_token_that_is_replaced(
    tmp_path: Path, certificates: Certificates
) -> None:
    async with ApiServer(certificates=certificates, token="first") as server:
        environ = server.service_account(tmp_path)
        async with ApiClient(partial(in_cluster, tmp_path, environ)) as client:
            await client.list(SLICES)
            server.token = "second"
            with pytest.raises(ApiError) as caught:
                await client.list(SLICES)
            assert caught.value.status == 401
            (tmp_path / "token").write_text("second\n")
            await client.list(SLICES)
            (tmp_path / "token").unlink()
            with pytest.raises(ApiError, match=r"token .* cannot be used: No such file"):
                await client.list(SLICES)
            (tmp_path / "token").write_text("second\nX-Other: 1")
            with pytest.raises(ApiError, match="characters that no token has"):
                await client.list(SLICES)


@pytest.mark.parametrize("by", ["ca", "name", "verification"])
async def test_a_server_that_is_no_longer_trusted_gets_no_token(
    tmp_path: Path,
    certificates: Certificates,
    tmp_path_factory: pytest.TempPathFactory,
    by: str,
) -> None:
    other = make_certificates(tmp_path_factory.mktemp("others")).ca.read_bytes()
    async with ApiServer(certificates=certificates, token="first") as server:
        trusted = of_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig"))
        if by == "verification":
            trusted = replace(trusted, verify=False, ca=other)
        withdrawn = {
            "ca": replace(trusted, ca=other, token="second"),
            "name": replace(trusted, server_name="other.example", token="second"),
            "verification": replace(trusted, verify=True, token="second"),
        }[by]
        access = trusted
        async with ApiClient(lambda: access) as client:
            with pytest.raises(ApiError, match="does not answer"):
                async with client.watch(SLICES, resource_version="1") as events:
                    await client.list(SLICES)
                    access = withdrawn
                    requests = len(server.requests)
                    with pytest.raises(ApiError, match="certificate that is not accepted"):
                        await client.list(SLICES)
                    await anext(events)
            assert len(server.requests) == requests, "the token has been sent"
            access = trusted
            await client.list(SLICES)


async def test_a_token_that_is_replaced_needs_no_other_connection(
    tmp_path: Path, certificates: Certificates
) -> None:
    async with ApiServer(certificates=certificates) as server:
        access = of_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig"))
        async with (
            ApiClient(lambda: access) as client,
            client.watch(SLICES, resource_version="1") as events,
        ):
            access = replace(access, token="second")
            await client.list(SLICES)
            server.bookmark()
            assert (await anext(events))[0] == "BOOKMARK"


async def test_files_that_come_later_or_are_replaced_are_read_again(
    tmp_path: Path, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> None:
    others = make_certificates(tmp_path_factory.mktemp("others"))
    async with ApiServer(certificates=certificates) as server:
        environ = server.service_account(tmp_path)
        (tmp_path / "ca.crt").unlink()
        async with ApiClient(partial(in_cluster, tmp_path, environ)) as client:
            with pytest.raises(
                ApiError, match=r"the CA of the API server .*/ca\.crt cannot be used: No such"
            ):
                await client.list(SLICES)
            shutil.copy(others.ca, tmp_path / "ca.crt")
            with pytest.raises(ApiError, match="has a certificate that is not accepted: "):
                await client.list(SLICES)
            shutil.copy(certificates.ca, tmp_path / "ca.crt")
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


def test_outside_a_cluster_a_kubeconfig_is_needed(tmp_path: Path) -> None:
    with pytest.raises(ApiAccessError, match="name a kubeconfig with --kubeconfig"):
        in_cluster(tmp_path, {})


async def test_a_kubeconfig_may_contain_what_it_needs(
    tmp_path: Path, certificates: Certificates
) -> None:
    async with ApiServer(certificates=certificates, token="secret") as server:
        assert (
            await reaches(partial(of_kubeconfig, server.kubeconfig(tmp_path / "kubeconfig"))) == ""
        )


async def test_a_kubeconfig_may_name_files_beside_it(
    tmp_path: Path, certificates: Certificates
) -> None:
    shutil.copy(certificates.ca, tmp_path / "ca.crt")
    (tmp_path / "token").write_text("secret")
    async with ApiServer(certificates=certificates, token="secret") as server:
        cluster = {"server": f"{server.url}/", "certificate-authority": "ca.crt"}
        path = kubeconfig(tmp_path, cluster, {"token": "other", "tokenFile": "token"})
        assert await reaches(partial(of_kubeconfig, path)) == ""


@pytest.mark.parametrize("as_data", [False, True])
async def test_a_kubeconfig_may_have_a_client_certificate(
    tmp_path: Path, certificates: Certificates, as_data: bool
) -> None:
    files = {
        "client-certificate": certificates.client_certificate,
        "client-key": certificates.client_key,
    }
    user = {
        f"{key}-data" if as_data else key: _encoded(file) if as_data else str(file)
        for key, file in files.items()
    }
    async with ApiServer(certificates=certificates, token="not ours") as server:
        cluster = {"server": server.url, "certificate-authority": str(certificates.ca)}
        assert await reaches(partial(of_kubeconfig, kubeconfig(tmp_path, cluster, user))) == ""
        without = await reaches(partial(of_kubeconfig, kubeconfig(tmp_path, cluster, {})))
        assert "does not accept the token or certificate (401)" in without


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
        (b"- 1", "not what kubectl writes"),
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


async def test_a_damaged_certificate_is_an_error_of_each_request(tmp_path: Path) -> None:
    url = "https://127.0.0.1:1"
    refused = await reaches(lambda: Access(server=url, ca=b"nothing"))
    assert "the CA of the API server cannot be used: " in refused
    refused = await reaches(lambda: Access(server=url, certificate=b"nothing", key=b"x"))
    assert "the client certificate for the API server cannot be used" in refused


def test_secrets_are_not_shown() -> None:
    access = Access(server="https://h", token="secret", key=b"secret")
    assert "secret" not in repr(access)


def _encoded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
