"""Who we say we are, to a broker that insists on TLS, and to one that knows keys."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats
import nkeys  # type: ignore[import-untyped]
import pytest
import trustme
from nats.aio.client import Client

from antiphon.stack import StackConfig
from antiphon.stack.broker import find_server
from tests.stacks import GuardedStack
from tests.waits import until
from ttscommon.bus.credentials import accounts, credentials
from ttscommon.bus.link import Incoming, Link, LinkTuning
from ttscommon.bus.permissions import ROLES, Role, inbox_prefix, permissions
from ttscommon.bus.setup import prepare
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


async def test_nothing_is_sent_in_the_clear_beside_tls(serve: Serve, authority: Authority) -> None:
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


def test_a_file_of_credentials_is_the_librarys_to_read(tmp_path: Path) -> None:
    file = tmp_path / "user.creds"
    file.touch()
    assert credentials(BusSettings(creds_file=file)) == {"user_credentials": str(file)}


SERVICES: tuple[Role, ...] = ("gateway", "talker", "vocoder")
OWN = {
    "gateway": ("antiphon.text.r", "antiphon-TEXT"),
    "talker": ("antiphon.codes.r", "antiphon-CODES"),
    "vocoder": ("antiphon.audio.r", "antiphon-AUDIO"),
}
PULL = {
    "talker": "antiphon-TALK_JOBS.antiphon-talk-vesper",
    "vocoder": "antiphon-VOCODE_JOBS.antiphon-voc-vesper",
}
VOICES = "KV_antiphon-voices"
RECORD = "$KV.antiphon-voices.owner.name"
# What a service may do by itself is no attack.
FORBIDDEN = (
    f"$JS.API.STREAM.PURGE.{VOICES}",
    f"$JS.API.STREAM.DELETE.{VOICES}",
    "$JS.API.STREAM.DELETE.antiphon-TALK_JOBS",
    "$JS.API.CONSUMER.DELETE.antiphon-TALK_JOBS.antiphon-talk-vesper",
    f"$JS.API.STREAM.MSG.DELETE.{VOICES}",
    f"$JS.API.CONSUMER.CREATE.{VOICES}",
    "$JS.API.CONSUMER.CREATE.KV_antiphon-sessions",
    "$JS.API.STREAM.CREATE.spy",
)


@dataclass
class Intruder:
    """A service's user, and what came into its inbox."""

    role: Role
    client: Client
    inbox: str
    heard: list[Any]

    @classmethod
    async def enter(cls, stack: GuardedStack, role: Role) -> Intruder:
        settings = stack.bus_as(role)

        async def refused(error: Exception) -> None:
            """What is refused at once is no way in."""

        client = await nats.connect(
            settings.urls[0],
            user=settings.user,
            password=settings.password,
            inbox_prefix=inbox_prefix("antiphon", role).encode(),
            error_cb=refused,
        )
        intruder = cls(role, client, client.new_inbox(), [])

        async def hear(message: Any) -> None:
            intruder.heard.append(message)

        await client.subscribe(intruder.inbox, cb=hear)
        return intruder

    def baits(self) -> Iterator[bytes]:
        """Messages of its own that mean something where it wants them."""
        yield b""
        yield json.dumps({"seq": 1}).encode()
        yield json.dumps({"name": "spy", "subjects": ["spy.>"]}).encode()
        for stream in (VOICES, "KV_antiphon-sessions"):
            config = {"deliver_subject": self.inbox, "ack_policy": "none", "deliver_policy": "all"}
            yield json.dumps({"stream_name": stream, "config": config}).encode()

    def questions(self, kept: bytes) -> Iterator[tuple[str, bytes]]:
        """What it may ask for, answered with what it has kept or with words of the broker's."""
        subject, stream = OWN[self.role]
        last = json.dumps({"last_by_subj": subject}).encode()
        yield f"$JS.API.DIRECT.GET.{stream}.{subject}", b""
        yield f"$JS.API.DIRECT.GET.{stream}", last
        yield f"$JS.API.DIRECT.GET.{stream}", json.dumps({"multi_last": [subject]}).encode()
        yield f"$JS.API.STREAM.MSG.GET.{stream}", last
        yield f"$JS.API.STREAM.INFO.{stream}", b""
        yield subject, kept
        if consumer := PULL.get(self.role):
            pull = {"batch": 1, "no_wait": True, "group": "workers"}
            yield f"$JS.API.CONSUMER.MSG.NEXT.{consumer}", json.dumps(pull).encode()
            yield f"$JS.API.CONSUMER.INFO.{consumer}", b""

    async def attack(self) -> None:
        """Every bait, by every question, to every subject that is forbidden."""
        subject, _ = OWN[self.role]
        for kept in self.baits():
            await self.client.request(subject, kept, timeout=10)
            for asked, body in self.questions(kept):
                for forbidden in FORBIDDEN:
                    await self.client.publish(asked, body, reply=forbidden)
        await self._settle()

    async def make_consumers(self) -> None:
        """One that delivers where only the broker may publish, and has it publish emptiness."""
        stream, _, consumer = PULL.get(self.role, PULL["talker"]).partition(".")
        config = {
            "durable_name": consumer,
            "deliver_subject": f"$JS.API.STREAM.DELETE.{VOICES}",
            "ack_policy": "explicit",
            "idle_heartbeat": 100_000_000,
        }
        body = json.dumps({"stream_name": stream, "config": config}).encode()
        for name in (f"{consumer}.>", f"{consumer}.antiphon.job.talk.vesper.*", consumer):
            asked = f"$JS.API.CONSUMER.CREATE.{stream}.{name}"
            await self.client.publish(asked, body, reply=self.inbox)
        await self.client.publish(
            f"$JS.API.CONSUMER.DURABLE.CREATE.{stream}.{consumer}", body, reply=self.inbox
        )
        await self._settle()

    async def _settle(self) -> None:
        """Until the broker has done all that was asked, one after another, before this."""
        await self.client.flush()
        for _ in range(20):
            await self.client.request(OWN[self.role][0], b"", timeout=10)


async def test_the_broker_lends_no_service_rights_that_the_service_lacks(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (stack, keeper):
        before = await state(keeper)
        for role in SERVICES:
            intruder = await Intruder.enter(stack, role)
            await intruder.attack()
            await intruder.make_consumers()
            assert await state(keeper) == before, role
            assert not any(RECORD in message.subject for message in intruder.heard)
            assert b"secret" not in b"".join(message.data for message in intruder.heard)
            await intruder.client.close()


async def test_users_of_one_account_would_borrow_the_brokers_rights(tmp_path: Path) -> None:
    """The other way round: these attacks are real, and permissions alone do not stop them."""
    async with guarded(tmp_path, one_account) as (stack, keeper):
        before = await state(keeper)
        intruder = await Intruder.enter(stack, "talker")
        await intruder.attack()
        async with asyncio.timeout(10):
            while (now := await state(keeper))[VOICES] == before[VOICES]:
                await asyncio.sleep(0.05)
        assert now[VOICES] is None
        await intruder.client.close()


@asynccontextmanager
async def guarded(
    folder: Path, changed: Any = lambda written: written
) -> AsyncIterator[tuple[GuardedStack, Intruder]]:
    """A broker alone that keeps what services need and a secret, and a user who sees all of it."""
    config = StackConfig(gateways=0, talkers=0, vocoders=0, store=folder / "store")
    async with GuardedStack(config, folder / "secrets", accounts=changed) as stack:
        await prepare(stack.bus_as("setup"), "migrate", ["vesper"])
        gateway, keeper = [await Intruder.enter(stack, role) for role in ("gateway", "setup")]
        await gateway.client.request(RECORD, b"secret", timeout=10)
        yield stack, keeper
        await gateway.client.close()
        await keeper.client.close()


async def state(keeper: Intruder) -> dict[str, Any]:
    """What is kept, and who reads it, of the streams that no attacker may write."""
    found = {}
    for stream in (VOICES, "KV_antiphon-sessions", "antiphon-TALK_JOBS", "antiphon-VOCODE_JOBS"):
        answer = await keeper.client.request(f"$JS.API.STREAM.INFO.{stream}", b"", timeout=10)
        told = json.loads(answer.data).get("state")
        found[stream] = told and {
            key: told[key] for key in ("messages", "last_seq", "consumer_count")
        }
    return found


def one_account(written: str) -> str:
    """The same users with the same rights, in the account that keeps everything."""
    passwords, _ = written.split("# Written by", 1)
    users = "\n".join(
        f"{{ user: {role}, password: ${role.upper()}_PASSWORD, permissions: {{"
        f" publish: {json.dumps(rights.publish)}, subscribe: {json.dumps(rights.subscribe)},"
        f" allow_responses: true }} }}"
        for role, rights in ((role, permissions(role, "antiphon", ["vesper"])) for role in ROLES)
    )
    return f"""{passwords}
accounts {{
  SYS {{ users: [ {{ user: system, password: $SYSTEM_PASSWORD }} ] }}
  ANTIPHON {{ jetstream: enabled, users: [ {users} ] }}
}}
system_account: SYS
"""


@pytest.mark.parametrize("role", SERVICES)
def test_a_service_is_alone_in_its_account(role: Role) -> None:
    text = accounts("antiphon", ["vesper"])
    account = text[text.index(f"  {role.upper()} {{") :].split("exports:")[0]
    assert [line for line in account.splitlines() if "{ user:" in line] == [
        f"      {{ user: {role}, password: ${role.upper()}_PASSWORD,"
    ]
    assert "jetstream" not in account
