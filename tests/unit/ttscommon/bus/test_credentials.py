"""Who we say we are, to a broker that insists on TLS, and to one that knows keys."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import nkeys  # type: ignore[import-untyped]
import pytest
import trustme

from antiphon.stack.broker import find_server
from tests.waits import until
from ttscommon.bus.link import Incoming, Link, LinkTuning
from ttscommon.process.settings import BusSettings
from ttscommon.wire.errors import BusRefused

QUICK = LinkTuning(refused_s=0.3)

Serve = Callable[[str], Awaitable[int]]


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    """Start a broker with some configuration; returns its port."""
    servers: list[asyncio.subprocess.Process] = []

    async def started(configuration: str) -> int:
        path = tmp_path / "nats.conf"
        folder = json.dumps(str(tmp_path))
        path.write_text(f'listen: "127.0.0.1:-1"\nports_file_dir: {folder}\n{configuration}')
        server = await asyncio.create_subprocess_exec(
            find_server(), "--config", str(path), stderr=asyncio.subprocess.DEVNULL
        )
        servers.append(server)
        ports = tmp_path / f"nats-server_{server.pid}.ports"
        await until(lambda: ports.exists() and ports.read_text())
        return int(json.loads(ports.read_text())["nats"][0].rsplit(":", 1)[1])

    yield started
    for server in servers:
        server.terminate()
        await server.wait()


class Authority:
    """A certificate authority, and what it issued, as files."""

    def __init__(self, folder: Path) -> None:
        self._ca = trustme.CA()
        self._folder = folder
        self.file = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(str(self.file))

    def issue(self, name: str) -> tuple[Path, Path]:
        """A certificate and its key."""
        issued = self._ca.issue_cert(name)
        key, chain = self._folder / f"{name}.key", self._folder / f"{name}.pem"
        issued.private_key_pem.write_to_path(str(key))
        chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        return chain, key


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def tls(authority: Authority, *, verify: bool = False) -> str:
    cert, key = authority.issue("127.0.0.1")
    return (
        f'tls {{ cert_file: "{cert}", key_file: "{key}", '
        f'ca_file: "{authority.file}", verify: {str(verify).lower()} }}\n'
    )


async def echo(message: Incoming) -> None:
    await message.respond(message.data)


async def greet(settings: BusSettings) -> None:
    """Connect, and be heard."""
    link = await Link.connect(settings, "test", QUICK)
    try:
        await link.subscribe("echo", echo)
        assert await link.request("echo", b"hello", 5.0) == b"hello"
    finally:
        await link.close()


async def refused(settings: BusSettings) -> None:
    """No connection comes about."""
    with pytest.raises((TimeoutError, BusRefused)):
        async with asyncio.timeout(1.5):
            await greet(settings)


async def test_a_broker_is_believed_by_its_authority_alone(
    serve: Serve, authority: Authority, tmp_path: Path
) -> None:
    port = await serve(tls(authority))
    url = f"tls://127.0.0.1:{port}"
    await greet(BusSettings(urls=(url,), tls_ca=authority.file))
    (tmp_path / "other").mkdir()
    await refused(BusSettings(urls=(url,), tls_ca=Authority(tmp_path / "other").file))


async def test_a_client_shows_its_own_certificate(serve: Serve, authority: Authority) -> None:
    port = await serve(tls(authority, verify=True))
    cert, key = authority.issue("gateway")
    settings = BusSettings(urls=(f"nats://127.0.0.1:{port}",), tls_ca=authority.file)
    await refused(settings)
    await greet(settings.model_copy(update={"tls_cert": cert, "tls_key": key}))


async def test_nothing_is_sent_in_the_clear_where_tls_is_asked_for(
    serve: Serve, authority: Authority
) -> None:
    port = await serve("")
    await refused(BusSettings(urls=(f"nats://127.0.0.1:{port}",), tls_ca=authority.file))


async def test_an_nkey_opens_and_another_does_not(serve: Serve, tmp_path: Path) -> None:
    mine, other = tmp_path / "mine.nk", tmp_path / "other.nk"
    for file in (mine, other):
        file.write_bytes(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER))
    public = nkeys.from_seed(bytearray(mine.read_bytes())).public_key.decode()
    port = await serve(f"authorization {{ users: [ {{ nkey: {public} }} ] }}\n")
    url = f"nats://127.0.0.1:{port}"
    await greet(BusSettings(urls=(url,), nkey_file=mine))
    await refused(BusSettings(urls=(url,), nkey_file=other))


class Signer:
    """An operator, account or user of NATS: a key, and what it signs for others."""

    def __init__(self, kind: int) -> None:
        self.seed = nkeys.encode_seed(os.urandom(32), kind)
        self._key = nkeys.from_seed(bytearray(self.seed))
        self.name = self._key.public_key.decode()

    def sign(self, subject: str, claims: dict[str, object]) -> str:
        """A token that says `claims` of `subject`."""
        body = {"jti": subject, "iss": self.name, "sub": subject, "nats": {**claims, "version": 2}}
        parts = [_encoded({"typ": "JWT", "alg": "ed25519-nkey"}), _encoded(body)]
        signed = self._key.sign(".".join(parts).encode())
        return ".".join([*parts, _base64(signed)])


def _encoded(value: object) -> str:
    return _base64(json.dumps(value).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def credentials_file(account: Signer, path: Path) -> Path:
    """A user of `account`: its token and its seed."""
    user = Signer(nkeys.PREFIX_BYTE_USER)
    token = account.sign(user.name, {"type": "user", "subs": -1, "data": -1, "payload": -1})
    path.write_text(
        f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n"
    )
    return path


async def test_a_credentials_file_opens_the_account_that_signed_it(
    serve: Serve, tmp_path: Path
) -> None:
    operator = Signer(nkeys.PREFIX_BYTE_OPERATOR)
    known, stranger = Signer(nkeys.PREFIX_BYTE_ACCOUNT), Signer(nkeys.PREFIX_BYTE_ACCOUNT)
    names = ("subs", "data", "payload", "imports", "exports", "conn", "leaf")
    limits = {**dict.fromkeys(names, -1), "wildcards": True}
    account = operator.sign(known.name, {"type": "account", "limits": limits})
    own = operator.sign(operator.name, {"type": "operator"})
    port = await serve(
        f"operator: {own}\nresolver: MEMORY\nresolver_preload: {{ {known.name}: {account} }}\n"
    )
    url = f"nats://127.0.0.1:{port}"
    opens = credentials_file(known, tmp_path / "known.creds")
    shut = credentials_file(stranger, tmp_path / "stranger.creds")
    await greet(BusSettings(urls=(url,), creds_file=opens))
    await refused(BusSettings(urls=(url,), creds_file=shut))
