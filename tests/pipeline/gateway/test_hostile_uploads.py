"""Uploads and texts that are made to hurt, at a gateway's own doors: the client's fault, soon.

`-s` prints the worst probe of the gateway during an attack. Its clients are in the same process.
"""

import base64
import io
import math
import pickle
import struct
import time
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from gateway.settings import GatewaySettings
from tests.adapters import files
from tests.keys import keys_file
from tests.probes import probed
from tests.unit.ttscommon.sound.test_recordings import wav

KEY: Final = {"authorization": "Bearer alice"}
AUDIO: Final = "/v1/audio"
# Of texts of 10,000 characters, which take a talker longer; the machine may be busy.
SOON_S: Final = 10.0
TRAINED: Final = files({"model.layers.0.self_attn.q_proj": (6, 4)}, 4)
PLS: Final = b'<lexicon xmlns="http://www.w3.org/2005/01/pronunciation-lexicon" alphabet="ipa">'
LAUGHS: Final = b"".join(
    b'<!ENTITY l%d "%s">' % (n, b"&l%d;" % (n - 1) * 10 if n else b"ha") for n in range(9)
)


class _Runs:
    """Unpickled, it would end this test."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return pytest.fail, ("a pickle was read",)


def zipped() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../model.safetensors", bytes(32 << 20))
    return made.getvalue()


FOREIGN: Final = {
    "zip": zipped(),
    "pickle": pickle.dumps(_Runs()),
    "header of 4 EiB": struct.pack("<Q", 1 << 62) + b"{}",
    "shape of 2^124": struct.pack("<Q", 90)
    + b'{"a.lora_A.weight":{"dtype":"F32","shape":[%d,%d],"data_offsets":[0,4]}}'.ljust(90)
    % (1 << 62, 1 << 62),
}
NAMES: Final = ("../mine", "/etc/passwd", "..", "a/b", "a\\b", "a\x00b", "a\nb", "*", ">", "x" * 65)
LEXICONS: Final = {
    "entities": b"<!DOCTYPE x [" + LAUGHS + b"]>" + PLS + b"&l8;</lexicon>",
    "a file outside": b"<!DOCTYPE x SYSTEM 'file:///etc/passwd'>" + PLS + b"</lexicon>",
    "3,000 deep": PLS + b"<lexeme>" * 3000 + b"</lexeme>" * 3000 + b"</lexicon>",
    "cut off": PLS + b"<lexeme><grapheme>a",
}
# Beginnings of entries that never end as one.
BACKTRACKING: Final = {
    "name": "slow",
    "language": "en-US",
    "entries": [
        {"graphemes": ["a " * n + end for end in "bcdefghij" for n in range(4)], "alias": "x"}
        for _ in range(20)
    ],
}
TEXTS: Final = {
    "SSML 3,000 deep": "<speak>" + "<emphasis>" * 400 + "a" + "</emphasis>" * 400 + "</speak>",
    "elements that open": "<p " * 3000,
    "braces 3,000 deep": "\\{" * 3000 + '"word": "a"' + "\\}" * 3000,
    "brackets": "<<" * 3000 + "a" + ">>" * 1500,
    "beginnings of entries": "a " * 4900,
}


@pytest.fixture
def settings(tmp_path: Path) -> GatewaySettings:
    return GatewaySettings(port=0, keys_file=keys_file(tmp_path), max_adapters=2)


async def post(stand: Any, path: str, **body: Any) -> Any:
    return await stand.http.post(f"{AUDIO}/{path}", headers=KEY, **body)


@pytest.mark.parametrize("attack", FOREIGN)
async def test_what_is_no_adapter_and_no_recording_is_refused(stand: Any, attack: str) -> None:
    data = FOREIGN[attack]
    async with probed(stand, attack):
        weights = {
            "adapter_config": ("a.json", TRAINED.config),
            "adapter_model": ("../../a.safetensors", data),
        }
        adapter = await post(stand, "adapters", data={"name": "mine"}, files=weights)
        assert (adapter.status_code, adapter.json()["error"]["code"]) == (400, "invalid_adapter")
        told = {"name": "mine", "consent": "I agree."}
        voice = await post(stand, "voices", data=told, files={"audio_sample": ("a.wav", data)})
        assert voice.status_code == 400, voice.text
    for kind in ("adapters", "voices"):
        assert "mine" not in (await stand.http.get(f"{AUDIO}/{kind}", headers=KEY)).text


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


@pytest.mark.parametrize("attack", LEXICONS)
async def test_what_is_no_lexicon_is_refused(stand: Any, attack: str) -> None:
    kind = {"content-type": "application/pls+xml"}
    async with probed(stand, attack):
        refused = await stand.http.post(
            f"{AUDIO}/lexicons?name=x", headers={**KEY, **kind}, content=LEXICONS[attack]
        )
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_lexicon")


@pytest.mark.parametrize("attack", TEXTS)
async def test_texts_that_nest_or_nearly_match_end_soon(stand: Any, attack: str) -> None:
    """Read with a lexicon of which everything nearly matches."""
    made = await post(stand, "lexicons", json=BACKTRACKING)
    assert made.is_success, made.text
    body = {"input": TEXTS[attack], "lexicons": ["slow"], "response_format": "pcm"}
    async with probed(stand, attack):
        began_s = time.process_time()
        answer = await post(stand, "speech", json=body)
        assert time.process_time() - began_s < SOON_S
    assert answer.status_code in (200, 400), answer.text


def rows(**changes: Any) -> dict[str, Any]:
    """Of four numbers."""
    data = changes.pop("raw", struct.pack("<4f", 0.0, 1.0, 2.0, 3.0))
    whole = {"kind": "said", "dtype": "f4", "shape": [1, 4], "crc32": zlib.crc32(data)}
    return {**whole, "data": base64.b64encode(data).decode(), **changes}


HOSTILE_ROWS: Final = {
    "no number": rows(raw=struct.pack("<4f", math.nan, 0, 0, 0)),
    "infinite": rows(raw=struct.pack("<4f", math.inf, 0, 0, 0)),
    "another checksum": rows(crc32=1),
    "a huge shape": rows(shape=[1 << 31, 1 << 31]),
    "a shape beyond numbers": rows(shape=[1 << 70, 1 << 70]),
    "a negative shape": rows(shape=[-1, -4]),
    "no rows": rows(raw=b"", shape=[0, 4]),
    "other bytes": rows(data="AAAA"),
    "no base64": rows(data="?" * 24),
    "places of what is said": rows(places=[1, 2, 3]),
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
    async with stand.socket(additional_headers=KEY) as socket, probed(stand, "rows"):
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
