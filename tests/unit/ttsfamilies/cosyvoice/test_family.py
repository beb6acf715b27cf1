"""CosyVoice's own: what stands before a text, the books of turns, and what a folder lacks."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.ttsfamilies.cosyvoice.tiny import HEARD, SOUND, tiny
from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.wire.errors import BadRequest
from ttscommon.wire.messages import Reference, SpeechRequest
from ttsfamilies.base.talker.guard import Guard, Watch
from ttsfamilies.base.talker.streams import Plan
from ttsfamilies.cosyvoice.facts import FAMILY
from ttsfamilies.cosyvoice.family import CosyVoice
from ttsfamilies.cosyvoice.request import (
    BACKBONE,
    END_OF_PROMPT,
    V2,
    Block,
    Blocks,
    MoreText,
    Opening,
    common,
    opening,
)
from ttsfamilies.cosyvoice.streams import NONE, WINDOW, InterleavedStream
from ttsfamilies.cosyvoice.synthetic import write_checkpoint
from ttsfamilies.known import FAMILIES
from ttsfamilies.talkers import load

ALONE = Reference(SOUND.audio, SOUND.text, x_vector_only=True)
START = END_OF_PROMPT + 20


def request(reference: Reference | None = SOUND, **changes: Any) -> SpeechRequest:
    return SpeechRequest("r", "m", "", "Hello, world.", reference=reference, seed=5, **changes)


def test_without_a_recording_there_is_no_voice() -> None:
    with pytest.raises(BadRequest, match="ref_audio") as raised:
        opening(request(None), None, tiny()._vocabulary)
    assert raised.value.param == "ref_audio"


@pytest.mark.parametrize("version", [2, 3])
def test_a_recording_is_gone_on_from_unless_it_is_the_codecs_alone(version: int) -> None:
    known = tiny(version)._vocabulary
    found = opening(request(), HEARD, known)
    assert found.text == tuple(known.tokenizer.ids(SOUND.text))
    assert [one - known.speech for one in found.speech] == HEARD["token"].tolist()
    assert (END_OF_PROMPT in found.header) is (version == 3)
    for asked in (request(ALONE), request(instructions="Sing it.")):
        found = opening(asked, HEARD, known)
        assert not found.speech
        assert bool(found.text) is (version == 2 and bool(asked.instructions))
        told = (*found.header, *found.text)
        said = tuple(known.tokenizer.ids("Sing it."))[-2:]
        assert (said == told[-3:-1]) is bool(asked.instructions)
        assert (END_OF_PROMPT in told) is (version == 3 or bool(asked.instructions))


def turns(*drawn: int) -> InterleavedStream:
    """Of a recording's 20 tokens, its first turn has ten of its own: so many are drawn."""
    stream = InterleavedStream(tiny().prepare(request()), START, V2.fill)
    stream.feed([MoreText(tuple(range(12)))], final=True)
    for token in drawn:
        accept(stream, [token])
    return stream


def accept(stream: InterleavedStream, drawn: Sequence[int]) -> Plan:
    """The plan whose draw this is; none asks for more text."""
    plan = stream.plan(0)
    assert plan is not None
    stream.accept(plan.end, {"token": np.array(drawn, np.int64)}, not drawn)
    return plan


def test_a_drawn_fill_token_is_followed_by_text_behind_what_is_cached() -> None:
    stream = turns()
    first = accept(stream, [7])
    assert (first.start, first.decode) == (0, False)
    accept(stream, [8])
    decode = accept(stream, [])
    assert decode == Plan(first.end + 1, 1, decode=True)
    text = stream.plan(0)
    assert text is not None
    assert (text.start, text.decode) == (decode.end, False)
    assert stream.inputs(text)["id"].max() < END_OF_PROMPT
    slot: Any = {}
    stream.stage(slot.__setitem__)
    assert slot["recent"].tolist() == [NONE] * (WINDOW - 3) + [7, 8, V2.fill]
    assert (slot["draw"], slot["over"]) == (3, 0)
    assert slot["early"] > 1 << 30


def test_what_asks_for_more_text_goes_on_with_the_same_utterance() -> None:
    signs = CosyVoice.signs
    assert signs is not None
    stream, guard = turns(), Guard(Watch(signs, FAMILY.codec.frame_rate_hz), signs.code)
    for drawn in ([7], [8], [], [9], [10]):
        accept(stream, drawn)
        made = {"token": np.array(drawn, np.int64)}
        assert not guard.see(stream, made, len(drawn), ended=not drawn)
    assert stream.frames == 4
    assert (guard.caught, guard.cut_short) == ([], None)


def test_a_forced_fill_token_costs_no_step_and_waits_for_what_is_in_flight() -> None:
    stream = turns(*range(9))
    assert stream.plan(1) is None
    cached = accept(stream, [9]).end
    text = stream.plan(0)
    assert text is not None
    assert (text.start, text.decode) == (cached, False)
    ids = stream.inputs(text)["id"].tolist()
    assert ids[0] == START + 9
    assert len(ids) == 6


def test_what_a_folder_lacks_is_named(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / "campplus.onnx").rename(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match=r"campplus\.onnx cannot be read"):
        load("m", tmp_path)
    (tmp_path / "elsewhere").rename(tmp_path / "campplus.onnx")
    path = tmp_path / BACKBONE / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"vocab_size": 1000}))
    with pytest.raises(CheckpointError, match="ends no prompt"):
        load("m", tmp_path)


def test_published_pickles_are_refused_with_the_command_that_converts_them(tmp_path: Path) -> None:
    for name in ("llm.pt", "flow.pt", "hift.pt", "campplus.onnx", "speech_tokenizer_v2.onnx"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(CheckpointError, match="antiphon convert"):
        FAMILIES.of(tmp_path)


# How a streamed text and its speech take turns.

HEADER, TASK, SPEECH = (900,), 901, 1000
ids = st.integers(0, 99)
texts = st.lists(ids, min_size=1, max_size=60)
openings = st.builds(
    lambda text, speech: Opening(HEADER, tuple(text), tuple(SPEECH + s for s in speech), TASK),
    st.lists(ids, max_size=30),
    st.lists(ids, max_size=50),
)


def blocks(opening: Opening, text: Sequence[int]) -> list[Block]:
    found = Blocks(opening)
    found.feed(text, final=True)
    return found.known


def test_five_tokens_of_text_begin_each_turn_behind_what_a_recordings_last_one_lacks() -> None:
    alone = blocks(Opening(HEADER, (), (), TASK), range(12))
    assert alone == [
        Block((*HEADER, 0, 1, 2, 3, 4), 15),
        Block((5, 6, 7, 8, 9), 15),
        Block((10, 11, TASK), None),
    ]
    speech = tuple(range(SPEECH, SPEECH + 40))
    first = blocks(Opening(HEADER, tuple(range(10)), speech[:20], TASK), [50])[0]
    assert first.ids == (*HEADER, *range(5), *speech[:15], *range(5, 10), *speech[15:20])
    assert first.limit == 10
    (cut,) = blocks(Opening(HEADER, (1, 2, 3), speech, TASK), [4, 5, 6])
    assert cut == Block((*HEADER, 1, 2, 3, 4, 5, *speech[:15], 6, TASK), None)


@given(openings, texts, st.lists(st.integers(1, 9), max_size=30))
def test_turns_tell_all_text_once_and_in_order_however_it_arrives(
    opening: Opening, text: list[int], sizes: list[int]
) -> None:
    found, at = Blocks(opening), 0
    for size in sizes:
        found.feed(text[at : at + size], final=False)
        at += size
    found.feed(text[at:], final=True)
    assert found.known == blocks(opening, text)
    told = [one for block in found.known for one in block.ids if one < HEADER[0]]
    assert told == [*opening.text, *text]


@given(openings, texts, texts)
def test_positions_before_a_texts_own_tokens_are_common_to_all_texts(
    opening: Opening, one: list[int], other: list[int]
) -> None:
    first, second = (blocks(opening, text)[0].ids for text in (one, other))
    shared = min(common(opening), len(first), len(second))
    assert first[:shared] == second[:shared]
