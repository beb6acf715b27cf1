"""Questions about a model outside of jobs, answered by the families that can."""

from typing import Any

import numpy as np
import pytest

from talker.service import answered
from tests.unit.ttsfamilies.kokoro.tiny import parts, tiny
from tests.unit.ttsfamilies.tiny_vesper import tiny as tiny_vesper
from ttscommon.wire.lookups import (
    Lookup,
    PhonesWanted,
    Refused,
    Style,
    StyleWanted,
    decode_found,
    encode,
)
from ttscommon.wire.lookups import PhonesFound as Found
from ttsfamilies.base.talker.served import ServedFamily
from ttsfamilies.base.text.misaki import SYMBOLS
from ttsfamilies.fake.talker import FakeModel, StepCurve

TIDE = "ðə tˈId."


async def asked(family: Any, lookup: Lookup) -> Any:
    return decode_found(await answered(ServedFamily(family), encode(lookup)))


async def test_a_text_is_told_in_the_symbols_that_the_model_reads() -> None:
    found = await asked(tiny(), PhonesWanted("The tide.", "en-US"))
    vocabulary = parts()[0].config.vocab
    assert found == Found(TIDE, tuple(vocabulary[symbol] for symbol in TIDE))


async def test_the_default_voice_tells_its_tokens() -> None:
    """A tiny one, whose frontend is letters."""
    found = await asked(tiny_vesper(), PhonesWanted("A bed. A bed.", "en-US"))
    assert found.symbols == "".join(SYMBOLS[token] for token in found.ids)
    first, second = found.symbols.split(". ")
    assert f"{first}." == second


async def test_sentences_follow_one_another_and_dates_are_read_as_the_language_has_them() -> None:
    there, here = [
        (await asked(tiny(), PhonesWanted("On 3/4/2024. Yes.", tag))).symbols
        for tag in ("en-US", "en-GB")
    ]
    assert there != here
    assert there.endswith(". jˈɛs.")


async def test_a_blend_is_the_sum_of_its_shares() -> None:
    rows = [
        (await asked(tiny(), StyleWanted(name))).rows.array()
        for name in ("af_heart", "af_sky", "af_heart*3+af_sky")
    ]
    np.testing.assert_allclose(rows[2], 0.75 * rows[0] + 0.25 * rows[1], rtol=1e-5)


@pytest.mark.parametrize(
    ("made", "lookup", "code"),
    [
        (tiny, PhonesWanted("...", "en-US"), "nothing_to_say"),
        (tiny, PhonesWanted("Hallo.", "de"), "bad_request"),
        (tiny_vesper, PhonesWanted("Hallo.", "de"), "bad_request"),
        (tiny, StyleWanted("af_nobody"), "unknown_voice"),
        (tiny_vesper, StyleWanted("vesper"), "unsupported"),
        (
            lambda: FakeModel("m", StepCurve(0.0, 0.0, 0.0)),
            PhonesWanted("Hi.", "en"),
            "unsupported",
        ),
    ],
)
async def test_what_cannot_be_told_is_refused_with_the_reason(
    made: Any, lookup: Lookup, code: str
) -> None:
    found = await asked(made(), lookup)
    assert isinstance(found, Refused)
    assert found.code == code
    assert found.message


async def test_what_is_no_question_is_refused_too() -> None:
    found = decode_found(await answered(ServedFamily(tiny()), b"what?"))
    assert isinstance(found, Refused)
    assert found.code == "malformed_message"
    assert not isinstance(found, Style)
