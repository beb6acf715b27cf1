"""Uploads, texts and jobs that are made to hurt: the client's fault, soon, and other keys and the
gateway's health notice nothing.

`-s` prints the worst probe of the gateway during an attack. Its clients are in the same process.
"""

import asyncio
import base64
import json
import math
import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from prometheus_client import generate_latest

from gateway.books import records
from gateway.settings import GatewaySettings
from tests.adapters import files
from tests.stacks import JOBS, job_card, keys_file, probed
from tests.unit.ttscommon.books.test_apart import SLOW, readers
from tests.unit.ttscommon.sound.test_recordings import wav
from tests.waits import TIMEOUT_S, until
from ttscommon.process.tasks import stop

A, B = ({"authorization": f"Bearer {name}"} for name in ("alice", "bob"))
AUDIO: Final = "/v1/audio"
TRAINED: Final = files({"model.layers.0.self_attn.q_proj": (6, 4)}, 4)


@pytest.fixture
def settings(tmp_path: Path) -> GatewaySettings:
    """A gateway in which alice and bob have keys of their names."""
    return GatewaySettings(port=0, keys_file=keys_file(tmp_path), max_adapters=2)


NAMES: Final = ("../mine", "/etc/passwd", "..", "a/b", "a\\b", "a\x00b", "a\nb", "*", ">", "x" * 65)


async def post(stand: Any, path: str, **body: Any) -> Any:
    return await stand.http.post(f"{AUDIO}/{path}", headers=A, **body)


async def test_names_are_names_and_no_paths(stand: Any) -> None:
    both = {
        "adapter_config": ("a.json", TRAINED.config),
        "adapter_model": ("a.bin", TRAINED.weights),
    }
    sample = {"audio_sample": ("../../a.wav", wav(2.0))}
    entries = [{"grapheme": "a", "alias": "b"}]
    for name in NAMES:
        made = [
            await post(stand, "adapters", data={"name": name}, files=both),
            await post(stand, "voices", data={"name": name, "consent": "Yes."}, files=sample),
            await post(stand, "lexicons", json={"name": name, "entries": entries}),
        ]
        assert [one.is_client_error for one in made] == [True] * 3, (name, made)


def rows(**changes: Any) -> dict[str, Any]:
    """Of four numbers."""
    data = changes.pop("raw", struct.pack("<4f", 0.0, 1.0, 2.0, 3.0))
    whole = {"kind": "said", "dtype": "f4", "shape": [1, 4], "crc32": zlib.crc32(data)}
    return {**whole, "data": base64.b64encode(data).decode(), **changes}


# unit/gateway has what else they may be: protocols/test_native_messages.py, requests/test_rows.py.
HOSTILE_ROWS: Final = {
    "no number": rows(raw=struct.pack("<4f", math.nan, 0, 0, 0)),
    "another checksum": rows(crc32=1),
    "a shape beyond numbers": rows(shape=[1 << 70, 1 << 70]),
    "a negative shape": rows(shape=[-1, -4]),
    "no rows": rows(raw=b"", shape=[0, 4]),
    "another width": rows(raw=bytes(8), shape=[1, 2]),
}


async def test_rows_that_are_none_are_refused_and_the_socket_goes_on(
    stand: Any, talk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request takes rows as before."""
    context = stand.gateway.context
    model = msgspec.structs.replace(await context.catalogue.model("default"), row_width=4)
    spec = context.spec

    async def with_rows(_: object, tenant: str, **wanted: Any) -> Any:
        return replace(await spec(tenant, **wanted), model=model)

    monkeypatch.setattr(type(context), "spec", with_rows)
    async with stand.socket(additional_headers=A) as socket, probed(stand, "rows"):
        await talk.send(socket, "session.config")
        await talk.receive(socket)
        await talk.send(socket, "input.rows", rows=rows())
        opened = await talk.receive(socket)
        assert opened["type"] == "input.accepted", opened
        for attack, hostile in HOSTILE_ROWS.items():
            await talk.send(socket, "input.rows", start=1, rows=hostile)
            told = (await talk.until(socket, "error"))[-1]
            assert told["error"]["code"] in ("bad_request", "invalid_json"), (attack, told)
        await talk.send(socket, "input.rows", start=1, rows=rows())
        assert (await talk.until(socket, "input.accepted"))[-1]["rows"] >= 1
        await talk.send(socket, "cancel")


async def send(stand: Any, data: bytes, key: dict[str, str]) -> int:
    """A form with a file."""
    form: dict[str, Any] = {"files": {"file": ("a.md", data)}, "data": {"input_format": "markdown"}}
    made = await stand.http.post(JOBS, headers=key, timeout=TIMEOUT_S, **form)
    return int(made.status_code)


async def test_slow_books_of_one_key_hold_up_no_other(stand: Any) -> None:
    """Not books, nor what works on threads. Their clients leave; so do their readers' processes."""
    said = {"input": "It was calm.", "response_format": "mp3"}
    lexicon = {"name": "mine", "entries": [{"grapheme": "tide", "alias": "wave"}]}
    attack = [asyncio.create_task(send(stand, SLOW, A)) for _ in range(8)]
    await until(readers)
    async with probed(stand, "eight slow books, clients gone"), asyncio.timeout(TIMEOUT_S):
        assert await send(stand, b"It was calm.", B) == 202
        heard = await stand.http.post("/v1/audio/speech", headers=B, json=said)
        assert heard.is_success and heard.content  # noqa: PT018
        assert (await stand.http.post("/v1/audio/lexicons", headers=B, json=lexicon)).is_success
        assert b"tts_" in await asyncio.to_thread(generate_latest, stand.metrics.registry)
        assert len(readers()) == 1
        await stop(*attack)
        await until(lambda: not (readers() or stand.gateway.job_runner.reader.busy))


async def test_a_text_of_nothing_takes_no_process(
    stand: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(*_: object) -> Any:
        pytest.fail("a process was started")

    monkeypatch.setattr(records, "read_apart", read)
    assert [await send(stand, data, A) for data in (b"", b" \n\t")] == [400, 400]


async def test_titles_put_no_line_into_headers_or_files(stand: Any) -> None:
    """Line ends, control characters and a half surrogate, in the job and in its chapter."""
    evil = "A\r\nSet-Cookie: x=1\u2028CHAPTER002=x\x00"
    kind = {"content-type": "application/json"}
    body = {"title": evil + "\ud800", "input": "It was calm.", "response_format": "wav"}
    lone = json.dumps(body).encode()
    assert (await stand.http.post(JOBS, headers={**A, **kind}, content=lone)).status_code == 400
    job_runner = asyncio.create_task(stand.gateway.job_runner.run())
    try:
        for called in ("mp3", "opus", "wav", "m4b"):
            said = f"# B\r\n\r\n# {evil}\n\nIt was calm.".replace("\x00", "")
            body = {"title": evil, "input": said, "response_format": called}
            body["input_format"] = "markdown"
            made = await stand.http.post(JOBS, headers=A, json=body)
            assert made.status_code == 202, made.text
            card = await job_card(stand.http, made.json()["id"], headers=A)
            answer = await stand.http.get(f"{made.headers['location']}/audio", headers=A)
            assert card["title"].isprintable()
            assert "set-cookie" not in answer.headers
            assert all(value.isprintable() for value in answer.headers.values())
            for line in (b"\nSet-Cookie", b"\nCHAPTER002", b"A\r\nSet", b"=x\xed\xa0\x80"):
                assert line not in answer.content[:4096]
    finally:
        await stop(job_runner, again_s=10.0)


async def test_a_key_with_many_texts_that_wait_is_told_so(stand: Any) -> None:
    attack = [asyncio.create_task(send(stand, SLOW, A)) for _ in range(12)]
    try:
        async with asyncio.timeout(TIMEOUT_S):
            done, _ = await asyncio.wait(attack, return_when=asyncio.FIRST_COMPLETED)
        assert {task.result() for task in done} == {429}
    finally:
        await stop(*attack)
