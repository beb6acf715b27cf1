"""Qwen3-Omni's talker and codec in a stack, and a thinker elsewhere that produces their rows."""

import asyncio
import base64
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import pytest_asyncio

from antiphon.stack import LocalStack
from tests.answering import LIMIT_S, serving
from tests.native import Client
from ttscommon.wire.tensors import FloatRows
from ttsfamilies.qwen3_omni.synthetic import WIDTH, write_checkpoint

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

EXAMPLE: Final = Path(__file__).resolve().parents[2] / "examples" / "think.py"
WORKERS: Final = ("talker-omni-1", "vocoder-omni-1")
CONTEXT: Final = 3
ROWS: Final = 24
FRAMES: Final = 40


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalStack]:
    """One talker and one vocoder, beside the default voice."""
    folder = tmp_path_factory.mktemp("omni")
    write_checkpoint(folder, seed=3, codebooks=4, ending=0.0)
    store, waits = tmp_path_factory.mktemp("store"), {"ANTIPHON_TEXT_TIMEOUT_S": "30"}
    async with serving("omni", folder, store, talker=waits) as running:
        yield running


def pieces() -> list[FloatRows]:
    """A prompt, and a row a token."""
    values = np.random.default_rng(4).standard_normal((CONTEXT + ROWS, WIDTH)).astype(np.float32)
    said = [FloatRows.of("said", values[i : i + 1], "bf16") for i in range(CONTEXT, CONTEXT + ROWS)]
    return [FloatRows.of("context", values[:CONTEXT], "bf16"), *said]


class Thinker(Client):
    """A client that sends rows."""

    async def rows(self, first: int, last: int, request_id: str | None = None) -> None:
        """Messages first .. last of `pieces`."""
        for number, one in list(enumerate(pieces()))[first:last]:
            start = 0 if number == 0 else CONTEXT + number - 1
            told: dict[str, Any] = {"kind": one.kind, "dtype": one.dtype, "shape": list(one.shape)}
            told |= {"data": base64.b64encode(one.data).decode(), "crc32": one.crc32}
            named = {} if request_id is None else {"request_id": request_id}
            await self.send("input.rows", start=start, rows=told, **named)


async def configured(stack: LocalStack) -> Thinker:
    found = await Thinker.opened(stack.url, LIMIT_S)
    await found.send(
        "session.config",
        model="omni",
        seed=7,
        temperature=0.0,
        subtalker_temperature=0.0,
        max_new_tokens=FRAMES + 1,
        resumable=True,
    )
    await found.until("session.created")
    return found


async def whole(stack: LocalStack) -> Any:
    """What is heard of all rows, sent at once."""
    one = await configured(stack)
    await one.rows(0, 1 + ROWS)
    await one.send("input.done")
    done = await one.until("audio.done")
    assert done["outcome"] == "ok"
    assert done["samples"] == FRAMES * 1920
    one.vanish()
    return np.frombuffer(one.pcm, "<i2")


def near(one: bytes, other: Any) -> bool:
    """The same to two int16 steps, as code2wav promises."""
    found = np.frombuffer(one, "<i2").astype(int)
    return len(found) == len(other) and int(np.abs(found - other).max()) <= 2


async def test_talker_and_vocoder_die_while_the_thinker_thinks(served: LocalStack) -> None:
    """It thinks on when it has been heard."""
    wanted = await whole(served)
    one = await configured(served)
    for number, victim in enumerate(WORKERS):
        await one.rows(0 if number == 0 else 6, 6 if number == 0 else 12)
        await one.until("audio")
        served.children[victim].kill()
    await one.rows(12, 1 + ROWS)
    await one.send("input.done")
    await one.until("audio.done", outcome="ok")
    assert near(one.pcm, wanted)
    one.vanish()


async def test_a_thinker_that_dies_comes_back_over_another_connection(served: LocalStack) -> None:
    wanted = await whole(served)
    lost = await configured(served)
    await lost.rows(0, 8)
    told = await lost.until("input.accepted", rows=CONTEXT + 7)
    request_id, token = told["request_id"], told["resume_token"]
    await lost.until("audio")
    lost.vanish()
    back = await configured(served)
    heard = len(lost.pcm) // 2
    await back.send("session.resume", request_id=request_id, token=token, from_sample=heard)
    await back.send("input.attach", request_id=request_id, token=token)
    accepted = await back.until("input.accepted")
    assert accepted["rows"] == CONTEXT + 7
    await back.rows(6, 1 + ROWS, request_id)  # two of them are stored already
    await back.send("input.done", request_id=request_id)
    await back.until("audio.done", outcome="ok")
    assert near(lost.pcm + back.pcm, wanted)
    back.vanish()


async def test_a_thinker_elsewhere_speaks_to_a_listener_here(served: LocalStack) -> None:
    wanted = await whole(served)
    listener, thinker, other = [await configured(served) for _ in range(3)]
    await listener.send("input.rows")
    told = await listener.until("input.accepted", rows=0)
    request_id, token = told["request_id"], told["resume_token"]
    await thinker.send("input.attach", request_id=request_id, token=token)
    await thinker.until("input.accepted", rows=0)
    await thinker.rows(0, 9, request_id)
    await listener.until("audio")
    await other.send("input.attach", request_id=request_id, token=token)
    stored = await other.until("input.accepted")
    await thinker.rows(9, 10, request_id)
    await thinker.until("error", request_id=request_id)
    assert thinker.told[-1]["error"]["code"] == "produced_elsewhere"
    await other.rows(stored["rows"] - CONTEXT + 1, 1 + ROWS, request_id)
    await other.send("input.done", request_id=request_id)
    await listener.until("audio.done", outcome="ok")
    assert near(listener.pcm, wanted)
    for one in (listener, thinker, other):
        one.vanish()


async def test_a_thinker_that_never_comes_back_is_an_error_to_the_listener(
    served: LocalStack,
) -> None:
    listener, thinker = [await configured(served) for _ in range(2)]
    await listener.send("input.rows")
    told = await listener.until("input.accepted", rows=0)
    request_id, token = told["request_id"], told["resume_token"]
    await thinker.send("input.attach", request_id=request_id, token=token)
    await thinker.until("input.accepted", rows=0)
    await thinker.rows(0, 4, request_id)
    await listener.until("audio")
    thinker.vanish()
    failed = await listener.until("error", request_id=request_id)
    assert failed["error"]["code"] == "input_lost"
    listener.vanish()


async def test_rows_and_text_are_not_mixed_and_other_models_take_none(served: LocalStack) -> None:
    one = await configured(served)
    await one.rows(0, 2)
    await one.until("input.accepted", rows=CONTEXT + 1)
    await one.send("input.text", text="and this")
    assert (await one.until("error"))["error"]["code"] == "wrong_order"
    await one.send("cancel")
    await one.until("audio.done", outcome="cancelled")
    await one.send("input.done")
    await one.send("session.config", model="vesper")
    await one.until("session.updated")
    await one.rows(0, 1)
    assert (await one.until("error"))["error"]["code"] == "unsupported"
    one.vanish()


async def test_the_example_is_heard_to_its_end(served: LocalStack) -> None:
    environment = {"ANTIPHON_URL": served.url.replace("http", "ws"), "WIDTH": str(WIDTH)}
    environment |= {"TOKENS": "12", "THINKS_S": "0"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(EXAMPLE),
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    async with asyncio.timeout(LIMIT_S):
        heard = await process.stdout.readexactly(20 * 1920)  # it never ends by itself
    process.kill()
    await process.wait()
    assert np.frombuffer(heard, "<i2").any()
