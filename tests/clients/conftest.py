"""A stack of fake engines, and the clients that are run against it."""

import asyncio
import hashlib
import json
import os
import shutil
import ssl
import subprocess
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from antiphon.stack import LocalStack, StackConfig
from antiphon.stack.child import Child
from antiphon.stack.local import ServiceProgram
from tests.answering import answering, ready
from tests.clients.drive.common import LONG, SENTENCES, TEXT
from tests.native import Client
from tests.waits import TIMEOUT_S

Drive: TypeAlias = Callable[..., Awaitable[dict[str, Any]]]

INSTALLED: Final = os.environ.get("ANTIPHON_CLIENTS", "")
DRIVERS: Final = Path(__file__).with_name("drive")
KEY: Final = "sesame"
# By the first word of a driver's name: where the environment with its client is, and its file.
_PLACES: Final = {
    **dict.fromkeys(("openai", "elevenlabs", "cartesia", "deepgram", "wyoming"), ("", "sdks")),
    **dict.fromkeys(("livekit", "pipecat"), ("", "agents")),
    "realtime": ("", "realtime"),
    "spoken": ("", "spoken"),
    "litellm": ("litellm", "bridges"),
    "bridge": ("wyoming-openai", "bridges"),
    "agents": ("openai-agents", "sdk/openai_agents"),
    "home": ("home-assistant", "home_assistant"),
}


def command(driver: str) -> list[str] | None:
    """What runs a driver; None where its client is not installed."""
    place, client = Path(INSTALLED).resolve(), driver.partition("_")[0]
    if client == "node":
        found = shutil.which("node") if (place / "node" / "node_modules").exists() else None
        return [found, str(DRIVERS / "node.mjs")] if found else None
    at, file = _PLACES[client]
    python = place / at / "bin/python"
    return [str(python), str(DRIVERS / f"{file}.py")] if python.exists() else None


@pytest.fixture
def here() -> Callable[[Iterable[str]], list[str]]:
    """Those of the drivers whose clients are installed, which is said of the others."""

    def installed(drivers: Iterable[str]) -> list[str]:
        found, missing = list[str](), list[str]()
        for driver in drivers:
            (missing if command(driver) is None else found).append(driver)
        if missing:
            warnings.warn(UserWarning(f"not installed: {', '.join(missing)}"), stacklevel=2)
        return found

    return installed


@pytest.fixture
async def stack(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[LocalStack]:
    """keys: two keys, the second of one stream. engine: fake unless named. answering: with the
    models that hear. speechless: without workers, until `workers` are entered.
    """
    wanted: dict[str, Any] = getattr(request, "param", {})
    if wanted.get("answering"):
        async with LocalStack(answering(tmp_path)) as running:
            await ready(running)
            yield running
        return
    gateway = {"ANTIPHON_WYOMING_PORT": "0", "ANTIPHON_ADMISSION": "off"}
    if wanted.get("keys"):
        digest = hashlib.sha256(KEY.encode()).hexdigest()
        file = tmp_path / "keys.toml"
        file.write_text(f'[keys.someone]\nsha256 = "{digest}"\nstreams = 1\n')
        # Wyoming's clients bring no key: what they say is one tenant's, or its port stays closed.
        gateway |= {"ANTIPHON_KEYS_FILE": str(file), "ANTIPHON_WYOMING_TENANT": "someone"}
    count = 0 if wanted.get("speechless") else 1
    config = StackConfig(
        port=0, store=tmp_path / "store", engine=wanted.get("engine", "fake"), talkers=count,
        vocoders=count, environ={"gateway": gateway},
    )  # fmt: skip
    async with LocalStack(config) as running:
        yield running


@asynccontextmanager
async def workers(stack: LocalStack, folder: Path) -> AsyncIterator[None]:
    """A talker and a vocoder of fake engines for a stack that has none."""
    bus = {**stack.bus.model_dump(exclude_defaults=True), "urls": ",".join(stack.bus.urls)}
    environ = {f"ANTIPHON_BUS__{name.upper()}": str(value) for name, value in bus.items()}
    environ |= {"ANTIPHON_ENGINE": "fake", "ANTIPHON_LOG_FORMAT": "json"}
    children = [
        Child(ServiceProgram(stage, stage, folder, environ), lambda name, line: None)
        for stage in ("talker", "vocoder")
    ]
    tasks = [asyncio.create_task(child.supervise()) for child in children]
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await asyncio.gather(*(child.ready.wait() for child in children))
        yield
    finally:
        await asyncio.gather(*(child.stop(1.0) for child in children))
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def drive(stack: LocalStack) -> Drive:
    """What a client says that it received: `await drive(name, mode, key=..., url=...)`.

    `meanwhile` is awaited with the first line that the driver prints, before it is at its end.
    """

    async def run(
        name: str, mode: str = "speak",
        meanwhile: Callable[[str], Awaitable[None]] | None = None, **change: str,
    ) -> dict[str, Any]:  # fmt: skip
        environ = {
            "WYOMING_PORT": str(stack.children["gateway"].ports["wyoming"]),
            "CLIENT_KEY": change.get("key", KEY),
            "CLIENT_NODE": str(Path(INSTALLED).resolve() / "node"),
            "CLIENT_TEXT": TEXT,
            "CLIENT_LONG": LONG,
            "CLIENT_SHORT": SENTENCES[0],
            "CLIENT_MODEL": change.get("model", ""),
            "CLIENT_VOICE": change.get("voice", ""),
            "CLIENT_LIMIT_S": "300",
            "SSL_CERT_FILE": change.get("authority", ""),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
        process = await asyncio.create_subprocess_exec(
            *(command(name) or ()), name, change.get("url", stack.url), mode,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **{k: v for k, v in environ.items() if v}},
        )  # fmt: skip
        if meanwhile is not None and process.stdout is not None:
            await meanwhile((await process.stdout.readline()).decode().strip())
        out, err = await process.communicate()
        assert process.returncode == 0, f"{name}: {err.decode()[-3000:]}"
        heard: dict[str, Any] = json.loads(out.decode().splitlines()[-1])
        print(name, mode, {k: v for k, v in heard.items() if k != "began_s"})
        return heard

    return run


@pytest.fixture
def own_seconds(stack: LocalStack) -> Callable[[str], Awaitable[float]]:
    """How long a text is on Antiphon's own socket."""

    async def speak(text: str) -> float:
        async with await Client.opened(stack.url) as client:
            await client.say(text)
            return float((await client.until("audio.done"))["duration_s"])

    return speak


@pytest.fixture
async def with_tls(stack: LocalStack, tmp_path: Path) -> AsyncIterator[tuple[str, str]]:
    """The stack behind a proxy with TLS: its address, and the authority that vouches for it."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    made = subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", str(key), "-out", str(certificate), "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost"),
        ],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("no openssl that makes certificates")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    port = int(stack.url.rsplit(":", 1)[1])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pass_on(reader, behind[1]), _pass_on(behind[0], writer))

    server = await asyncio.start_server(serve, "localhost", 0, ssl=context)
    yield f"https://localhost:{server.sockets[0].getsockname()[1]}", str(certificate)
    server.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        return
    finally:
        writer.close()
