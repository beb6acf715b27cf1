"""Uploads and texts that are made to hurt, at a gateway's own doors: the client's fault, soon.

`-s` prints the worst probe of the gateway during an attack. Its clients are in the same process.
"""

import base64
import math
import struct
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
TRAINED: Final = files({"model.layers.0.self_attn.q_proj": (6, 4)}, 4)


NAMES: Final = ("../mine", "/etc/passwd", "..", "a/b", "a\\b", "a\x00b", "a\nb", "*", ">", "x" * 65)


@pytest.fixture
def settings(tmp_path: Path) -> GatewaySettings:
    return GatewaySettings(port=0, keys_file=keys_file(tmp_path), max_adapters=2)


async def post(stand: Any, path: str, **body: Any) -> Any:
    return await stand.http.post(f"{AUDIO}/{path}", headers=KEY, **body)


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
