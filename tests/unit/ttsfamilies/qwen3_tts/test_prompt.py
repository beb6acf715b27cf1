"""Layouts, position by position."""

from dataclasses import replace

import numpy as np
import pytest

from ttsfamilies.qwen3_tts.config import TalkerConfig
from ttsfamilies.qwen3_tts.prompt import (
    Heard,
    InContext,
    PromptLayout,
    PromptRequest,
    language_id,
    layout,
    prompt,
    spoken_frames,
)

ROLE = (11, 12, 13)
WHOLE = PromptRequest(ROLE, (21, 22, 23), complete=True, streaming=False)
STREAMED = replace(WHOLE, streaming=True)
REFERENCE = InContext((31, 32), np.arange(48, dtype=np.int16).reshape(3, 16))


def sides(
    config: TalkerConfig, request: PromptRequest
) -> tuple[list[int], list[int], PromptLayout]:
    """Text side and first codes of all positions behind the role."""
    parts = layout(config, request)
    assert parts is not None
    found = prompt(config, request, parts)
    begin = len(request.instruction) + len(ROLE)
    assert tuple(found["text"][:begin]) == (*request.instruction, *ROLE)
    assert not found["heard"][:begin].any()
    return found["text"][begin:].tolist(), found["codes"][begin:, 0].tolist(), parts


def test_streamed_text_is_told_one_token_a_step(config: TalkerConfig) -> None:
    pad, bos, eos = config.tts_pad_token_id, config.tts_bos_token_id, config.tts_eos_token_id
    text, codes, parts = sides(config, replace(STREAMED, instruction=(41, 42)))
    assert text == [*[pad] * 3, bos, 21]
    assert codes == [2155, 2156, 2157, 2148, 2149]
    assert [parts.step(i, pad) for i in range(5)] == [22, 23, eos, pad, pad]


def test_a_cloned_voice_takes_the_speakers_place(config: TalkerConfig) -> None:
    request = replace(STREAMED, cloned=True)
    parts = layout(config, request)
    assert parts is not None
    heard = prompt(config, request, parts)["heard"].tolist()
    assert heard.count(Heard.SPEAKER) == 1
    assert heard.index(Heard.SPEAKER) == len(ROLE) + 3


@pytest.mark.parametrize("count", [1, 7])
def test_a_reference_is_aligned_with_the_text_that_is_there(
    config: TalkerConfig, count: int
) -> None:
    pad, eos = config.tts_pad_token_id, config.tts_eos_token_id
    text = tuple(range(21, 21 + count))
    request = replace(STREAMED, text=text, cloned=True, reference=REFERENCE)
    found, codes, parts = sides(config, request)
    said = [31, 32, *text, eos]
    aligned = (said + [pad] * 4)[:4]
    assert found[-4:] == aligned
    assert codes[-4:] == [2149, 0, 16, 32]
    assert [parts.step(i, pad) for i in range(9)] == (said[4:] + [pad] * 9)[:9]


def test_a_reference_follows_the_whole_text(config: TalkerConfig) -> None:
    pad, eos = config.tts_pad_token_id, config.tts_eos_token_id
    found, codes, _ = sides(config, replace(WHOLE, cloned=True, reference=REFERENCE))
    assert found[-10:] == [31, 32, 21, 22, 23, eos, *[pad] * 4]
    assert codes[-10:] == [*[2148] * 6, 2149, 0, 16, 32]


@pytest.mark.parametrize(
    ("request_", "waits"),
    [
        (WHOLE, True),
        (replace(STREAMED, text=()), True),
        (replace(STREAMED, text=(21,)), False),
        # Until its positions have text.
        (replace(STREAMED, text=(21,), reference=REFERENCE), True),
        (replace(STREAMED, text=(21, 22), reference=REFERENCE), False),
    ],
)
def test_a_prompt_waits_for_the_text_that_stands_in_it(
    config: TalkerConfig, request_: PromptRequest, waits: bool
) -> None:
    assert (layout(config, replace(request_, complete=False)) is None) == waits


def test_a_step_beyond_the_known_text_is_not_known(config: TalkerConfig) -> None:
    pad, eos = config.tts_pad_token_id, config.tts_eos_token_id
    growing = layout(config, replace(STREAMED, text=(21, 22), complete=False))
    assert growing is not None
    assert [growing.step(i, pad) for i in range(3)] == [22, None, None]
    grown = layout(config, STREAMED)
    assert grown is not None
    assert [grown.step(i, pad) for i in range(4)] == [22, 23, eos, pad]


@pytest.mark.parametrize(
    ("language", "speaker", "wanted"),
    [
        ("auto", None, None),
        ("auto", "vivian", None),
        ("auto", "Eric", 2062),
        ("Chinese", "dylan", 2074),
        ("chinese", "vivian", 2055),
        ("english", "eric", 2050),
    ],
)
def test_some_speakers_force_their_dialect(
    config: TalkerConfig, language: str, speaker: str | None, wanted: int | None
) -> None:
    assert language_id(config, language, speaker) == wanted


def test_frames_already_made_are_positions_too() -> None:
    made = spoken_frames(REFERENCE.codes, [7, 8, 9])
    assert made["heard"].tolist() == [Heard.FRAME] * 3
    assert made["text"].tolist() == [7, 8, 9]
    with pytest.raises(ValueError, match="one text token"):
        spoken_frames(REFERENCE.codes, [7])
