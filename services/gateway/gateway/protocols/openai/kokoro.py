"""Routes of Kokoro-FastAPI beside speech: phones of a text, and voices combined into one."""

from __future__ import annotations

import io
import struct
import zipfile
from typing import Annotated, Any, Final

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field, TypeAdapter, ValidationError

from gateway import errors
from gateway.protocols.fields import LenientMessage, Name
from gateway.protocols.shared.context import Context, read_json, tenant_of
from gateway.requests.aliases import KOKORO_LANGUAGES
from gateway.requests.text import clean
from ttscommon.wire.errors import UnknownVoice
from ttscommon.wire.lookups import PhonesFound, PhonesWanted, Style, StyleWanted
from ttscommon.wire.messages import MAX_TEXT_CHARS

_FOLDER: Final = "voice"
# Protocol 2, opcode by opcode (pickletools names them): torch._utils._rebuild_tensor_v2 of the
# storage "0", an offset, a shape, strides, no gradient and no hooks.
_STORAGE: Final = (
    b"((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu"
)
_HEAD: Final = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n" + _STORAGE
_TAIL: Final = b"\x89ccollections\nOrderedDict\n)RtR."
router = APIRouter()

_MODEL: Final = "kokoro"
_MOST_VOICES: Final = 8

_Voices: Final[TypeAdapter[str | list[str]]] = TypeAdapter(
    Annotated[str, Field(max_length=512)]
    | Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=_MOST_VOICES)]
)


class PhonesBody(LenientMessage):
    """language: Kokoro's letter, or a BCP 47 tag."""

    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARS)]
    language: Name = "a"
    model: Name = _MODEL


@router.post("/dev/phonemize")
async def phonemize(request: Request, context: Context) -> dict[str, Any]:
    """A text in the symbols that the model reads, and their numbers."""
    tenant = tenant_of(context, request)
    body = PhonesBody.parsed(await read_json(request, context.settings))
    spec = await context.spec(tenant, model=body.model, names="aliases")
    language = KOKORO_LANGUAGES.get(body.language, body.language)
    asked = PhonesWanted(clean(body.text, context.settings.max_text_chars), language)
    found = await context.lookups.ask(spec.model, asked, PhonesFound)
    return {"phonemes": found.symbols, "tokens": list(found.ids)}


@router.post("/v1/audio/voices/combine", response_class=Response)
async def combine(request: Request, context: Context) -> Response:
    """Voices mixed in equal shares, or as the blend says, as a file of PyTorch's."""
    tenant = tenant_of(context, request)
    data = await read_json(request, context.settings)
    try:
        given = _Voices.validate_json(data.data)
    except ValidationError as error:
        raise errors.from_validation(error) from error
    name = given if isinstance(given, str) else "+".join(given)
    if not name.strip():
        raise UnknownVoice("name the voices to combine: 'af_bella+af_sky'", param="voice")
    spec = await context.spec(tenant, model=_MODEL, voice=name.strip(), names="aliases")
    found = await context.lookups.ask(spec.model, StyleWanted(spec.voice.id), Style)
    return Response(
        voice_pack(found.rows.array()),
        media_type="application/octet-stream",
        headers={
            "content-disposition": f'attachment; filename="{spec.voice.id}.pt"',
            "x-model": spec.model.name,
            "x-voice": spec.voice.id,
        },
    )


def voice_pack(rows: npt.NDArray[Any]) -> bytes:
    """[lengths, values] float32 as a tensor [lengths, 1, values]."""
    lengths, values = rows.shape
    pickled = _HEAD + _int(rows.size) + b"tQ" + _int(0)
    pickled += _triple(lengths, 1, values) + _triple(values, values, 1) + _TAIL
    members = {
        "data.pkl": pickled,
        "byteorder": b"little",
        "data/0": np.ascontiguousarray(rows, "<f4").tobytes(),
        "version": b"3\n",
    }
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(f"{_FOLDER}/{name}"), data)
    return made.getvalue()


def _int(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def _triple(*values: int) -> bytes:
    return b"".join(map(_int, values)) + b"\x87"
