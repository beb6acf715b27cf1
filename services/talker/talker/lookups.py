"""Answers to questions of gateways about the model, outside of jobs."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from talker.engine.interface import ReadingFamily
from ttscommon.wire.errors import AntiphonError
from ttscommon.wire.lookups import (
    Found,
    Lookup,
    PhonesWanted,
    Refused,
    Style,
    decode_lookup,
    encode,
)
from ttscommon.wire.tensors import Tensor

_LETTERS: Final = "this model reads letters or tokens, and no phones"
_NO_TABLES: Final = "the voices of this model are no tables that could be combined"

log_ = structlog.get_logger(__name__)


async def answered(family: ReadingFamily, asked: bytes) -> bytes:
    """The answer to a question, or why there is none."""
    try:
        found = await asyncio.to_thread(_found, family, decode_lookup(asked))
    except AntiphonError as error:
        found = Refused(error.code, error.message, error.param)
    except Exception as error:
        log_.exception("lookup.failed", error=str(error))
        found = Refused(AntiphonError.code, "the model failed")
    return encode(found)


def _found(family: ReadingFamily, asked: Lookup) -> Found:
    if isinstance(asked, PhonesWanted):
        phones = family.phones(asked.text, asked.language)
        return phones or Refused("unsupported", _LETTERS, "model")
    rows = family.style(asked.voice)
    if rows is None:
        return Refused("unsupported", _NO_TABLES, "model")
    return Style(Tensor.of(rows))
