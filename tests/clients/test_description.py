"""The OpenAPI description, as tools read it: what it allows is sent, and a client is made of it."""

import asyncio
import os
import wave
from pathlib import Path
from typing import Final

import httpx
import pytest

from antiphon.stack import LocalStack
from tests.clients.conftest import INSTALLED, KEY

# Of each route, at random, behind what is tried of every field.
EXAMPLES: Final = "3"
# What is tried of a route is drawn, and the same in every run.
SEED: Final = "61"
# Keys of each protocol, and what is not checked where, with its reason.
SETTINGS: Final = Path(__file__).with_name("schemathesis.toml")
DRIVER: Final = Path(__file__).with_name("drive") / "described.py"
# It reads bodies of one kind.
_CONFIG: Final = "content_type_overrides:\n  audio/mpeg: application/octet-stream\n"

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif("ANTIPHON_CLIENTS" not in os.environ, reason="`make clients` has them"),
    pytest.mark.parametrize("stack", [{"keys": True}], indirect=True),
]


async def run(folder: Path, *command: str) -> str:
    """What a program of the environment prints; raises AssertionError with it."""
    place = Path(INSTALLED).resolve() / "openapi/bin"
    process = await asyncio.create_subprocess_exec(
        place / command[0], *command[1:], cwd=folder,
        env={**os.environ, "ANTIPHON_KEY": KEY, "PATH": f"{place}{os.pathsep}{os.environ['PATH']}"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()[-20_000:]
    return said.decode()


async def test_every_answer_is_as_it_is_described(stack: LocalStack, tmp_path: Path) -> None:
    async with httpx.AsyncClient(base_url=stack.url) as http:
        paths = (await http.get("/openapi.json")).json()["paths"]
    said = await run(
        tmp_path, "st", "--config-file", str(SETTINGS), "run", f"{stack.url}/openapi.json",
        "--phases", "examples,coverage,fuzzing", "--seed", SEED,
        "--max-examples", EXAMPLES, "--workers", "1", "--continue-on-failure",
    )  # fmt: skip
    print(said[-2000:])
    assert f"Tested: {sum(map(len, paths.values()))}\n" in said


async def test_what_wants_a_key_is_refused_without_one(stack: LocalStack) -> None:
    async with httpx.AsyncClient(base_url=stack.url) as http:
        document = (await http.get("/openapi.json")).json()
        asked = {}
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if {} not in operation["security"]:
                    answer = await http.request(method, path, json={})
                    asked[operation["operationId"]] = answer.status_code
                    assert str(answer.status_code) in operation["responses"]
    assert len(asked) > 30
    assert set(asked.values()) == {401}, asked


async def test_a_client_that_is_made_of_it_speaks(stack: LocalStack, tmp_path: Path) -> None:
    async with httpx.AsyncClient(base_url=stack.url) as http:
        (tmp_path / "openapi.json").write_bytes((await http.get("/openapi.json")).content)
    (tmp_path / "config.yml").write_text(_CONFIG)
    await run(
        tmp_path, "openapi-python-client", "generate", "--path", "openapi.json", "--config",
        "config.yml", "--meta", "none", "--output-path", "described",
    )  # fmt: skip
    (tmp_path / "speak.py").write_text(DRIVER.read_text())
    said = await run(tmp_path, "python", "speak.py", stack.url, KEY)
    assert said.split() == ["vesper", "401", "invalid_api_key"]
    with wave.open(str(tmp_path / "tide.wav")) as sound:
        assert sound.getnframes() > sound.getframerate()
