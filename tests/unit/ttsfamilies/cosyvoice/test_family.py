"""CosyVoice's own: what stands before a text, the books of turns, and what a folder lacks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.ttsfamilies.cosyvoice.tiny import HEARD, SOUND, tiny
from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.wire.errors import BadRequest
from ttscommon.wire.messages import Reference, SpeechRequest
from ttsfamilies.base.talker.guard import Guard, Watch
from ttsfamilies.base.talker.streams import Plan
from ttsfamilies.cosyvoice.facts import FAMILY
from ttsfamilies.cosyvoice.family import CosyVoice
from ttsfamilies.cosyvoice.request import BACKBONE, END_OF_PROMPT, V2, MoreText, opening
from ttsfamilies.cosyvoice.streams import NONE, WINDOW, InterleavedStream
from ttsfamilies.cosyvoice.synthetic import write_checkpoint
from ttsfamilies.known import FAMILIES
from ttsfamilies.talkers import load

ALONE = Reference(SOUND.audio, x_vector_only=True)
SPEECH = END_OF_PROMPT + 20


def request(reference: Reference | None = SOUND, **changes: Any) -> SpeechRequest:
    return SpeechRequest("r", "m", "", "Hello, world.", reference=reference, seed=5, **changes)


def test_without_a_recording_there_is_no_voice() -> None:
    with pytest.raises(BadRequest, match="ref_audio") as raised:
        opening(request(None), None, tiny()._vocabulary)
    assert raised.value.param == "ref_audio"


def test_a_transcript_has_the_recording_gone_on_from() -> None:
    for version in (2, 3):
        known = tiny(version)._vocabulary
        found = opening(request(), HEARD, known)
        assert found.text == tuple(known.tokenizer.ids(SOUND.text))
        assert [one - known.speech for one in found.speech] == HEARD["token"].tolist()
        assert (END_OF_PROMPT in found.header) is (version == 3)


def test_without_one_or_under_an_instruction_the_voice_is_the_codecs() -> None:
    for version in (2, 3):
        known = tiny(version)._vocabulary
        for asked in (request(ALONE), request(instructions="Sing it.")):
            found = opening(asked, HEARD, known)
            assert not found.speech
            told = (*found.header, *found.text)
            said = tuple(known.tokenizer.ids("Sing it."))[-2:]
            assert (said == told[-3:-1]) is bool(asked.instructions)
            assert (END_OF_PROMPT in told) is (version == 3 or bool(asked.instructions))


class Slot(dict[str, Any]):
    """What was written."""

    def __call__(self, name: str, value: Any, at: int = 0) -> None:
        assert not at
        self[name] = value


def turns() -> InterleavedStream:
    """Of a recording's 20 tokens: its first turn has ten of its own."""
    stream = InterleavedStream(tiny().prepare(request()), SPEECH, V2.fill)
    stream.feed([MoreText(tuple(range(12)))], final=True)
    return stream


def test_a_drawn_fill_token_is_followed_by_text_behind_what_is_cached() -> None:
    stream = turns()
    first = stream.plan(0)
    assert first is not None
    assert (first.start, first.decode) == (0, False)
    for drawn in (7, 8):
        plan = stream.plan(0)
        assert plan is not None
        stream.accept(plan.end, {"token": np.array([drawn])}, False)
    decode = stream.plan(0)
    assert decode == Plan(first.end + 1, 1, decode=True)
    stream.accept(decode.end, {"token": np.zeros(0, np.int64)}, True)
    text = stream.plan(0)
    assert text is not None
    assert (text.start, text.decode) == (decode.end, False)
    assert stream.inputs(text)["id"].max() < END_OF_PROMPT
    slot = Slot()
    stream.stage(slot)
    assert slot["recent"].tolist() == [NONE] * (WINDOW - 3) + [7, 8, V2.fill]
    assert (slot["draw"], slot["over"]) == (3, 0)
    assert slot["early"] > 1 << 30


def test_what_asks_for_more_text_goes_on_with_the_same_utterance() -> None:
    signs = CosyVoice.signs
    assert signs is not None
    stream, guard = turns(), Guard(Watch(signs, FAMILY.codec.frame_rate_hz), signs.code)
    for drawn in ([7], [8], [], [9], [10]):
        plan = stream.plan(0)
        assert plan is not None
        made = {"token": np.array(drawn, np.int64)}
        stream.accept(plan.end, made, not drawn)
        assert guard.see(stream, made, len(drawn), ended=not drawn) is None
    assert stream.frames == 4
    assert (guard.caught, guard.cut_short) == ([], None)


def test_a_forced_fill_token_costs_no_step() -> None:
    stream, cached = turns(), 0
    for drawn in range(10):
        plan = stream.plan(0)
        assert plan is not None
        cached = plan.end
        stream.accept(cached, {"token": np.array([drawn])}, False)
    text = stream.plan(0)
    assert text is not None
    assert (text.start, text.decode) == (cached, False)
    ids = stream.inputs(text)["id"].tolist()
    assert ids[0] == SPEECH + 9
    assert len(ids) == 6


def test_at_the_end_of_a_turn_the_next_waits_for_what_is_in_flight() -> None:
    stream = turns()
    for drawn in range(9):
        plan = stream.plan(0)
        assert plan is not None
        stream.accept(plan.end, {"token": np.array([drawn])}, False)
    assert stream.plan(0) is not None
    assert stream.plan(1) is None


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
