"""What is asked of a model, held against what it obeys."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from gateway.errors import Unsupported
from gateway.protocols.native.messages import SessionConfig
from gateway.protocols.openai.body import SpeechBody
from gateway.requests import RequestOptions
from gateway.requests.catalogue import voice_of
from gateway.requests.options import TurnOptions, recording
from ttscommon.sound.recordings import BadRecording
from ttscommon.wire.errors import UnknownVoice
from ttscommon.wire.messages import Sampling
from ttscommon.wire.replicas import Model, Voice

VOICE = Voice("slt", "Slt", "en-US")
PLAIN = Model("plain", "f", 16_000, 25.0, (VOICE,), accepts=("temperature",))
CLONE = Model("clone", "f", 24_000, 12.5, accepts=("ref_audio", "ref_text", "language"))


def test_what_a_model_obeys_stays_and_nothing_else_was_said() -> None:
    options = RequestOptions(sampling=Sampling(temperature=0.0))
    assert options.obeyed(PLAIN, VOICE, lenient=False) == (options, [])


@pytest.mark.parametrize("name", ["instructions", "language", "non_streaming_mode"])
def test_a_way_of_speaking_is_dropped_for_clients_of_others_and_refused_on_the_socket(
    name: str,
) -> None:
    asked: dict[str, Any] = {name: True if name == "non_streaming_mode" else "german"}
    assert RequestOptions(**asked).obeyed(PLAIN, VOICE, lenient=True) == (RequestOptions(), [name])
    with pytest.raises(Unsupported) as refused:
        RequestOptions(**asked).obeyed(PLAIN, VOICE, lenient=False)
    assert refused.value.param == name


@pytest.mark.parametrize(
    "asked",
    [
        {"ref_audio": "x"},
        {"task_type": "Base"},
        {"x_vector_only_mode": True},
        {"ref_text": "x"},
        {"sampling": Sampling(top_p=0.5)},
    ],
)
def test_what_makes_another_speaker_or_is_unknown_is_refused_everywhere(
    asked: dict[str, Any],
) -> None:
    for lenient in (True, False):
        with pytest.raises(Unsupported):
            RequestOptions(**asked).obeyed(PLAIN, VOICE, lenient=lenient)


def test_the_voices_own_language_is_no_wish() -> None:
    for language in ("en", "en-US", "EN-gb"):
        options, dropped = RequestOptions(language=language).obeyed(PLAIN, VOICE, lenient=False)
        assert (options.language, dropped) == (language, [])


def test_both_shapes_of_a_request_say_the_same() -> None:
    fields = {
        "language": "german",
        "instructions": "Whisper.",
        "task_type": "Base",
        "non_streaming_mode": True,
        "ref_audio": "eA==",
        "ref_text": "x",
        "x_vector_only_mode": False,
        "temperature": 0,
        "subtalker_top_k": 5,
    }
    options = SpeechBody.model_validate({"input": "x", **fields}).options
    assert options == SessionConfig.model_validate({"type": "session.config", **fields}).options
    assert options.sampling == Sampling(temperature=0.0, subtalker_top_k=5)
    assert set(options.named()) == set(fields) - {"x_vector_only_mode"}


async def test_recordings_travel_as_base64_or_as_data_urls() -> None:
    text = base64.b64encode(b"sound").decode()
    for given in (text, f"data:audio/wav;base64,{text}"):
        assert await recording(given) == b"sound"


@pytest.mark.parametrize(
    "given", ["https://example.com/a.wav", "file:///etc/passwd", "data:audio/wav,x", "*", "A" * 5]
)
async def test_anything_else_is_no_recording(given: str) -> None:
    with pytest.raises(BadRecording):
        await recording(given)


async def test_a_recording_beyond_the_limit_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(BadRecording, match="10 MB"):
        await recording("A" * (15 << 20))


def test_a_model_without_voices_of_its_own_takes_any_name_it_could_clone() -> None:
    assert voice_of(CLONE, "anna").id == "anna"
    assert voice_of(CLONE, "default").id == ""
    design = Model("design", "f", 24_000, 12.5, accepts=("instructions",))
    assert voice_of(design, "alloy").id == ""
    with pytest.raises(UnknownVoice):
        voice_of(PLAIN, "anna")


@pytest.mark.parametrize(
    ("model", "asked", "instead"),
    [
        (PLAIN, {"turns": (TurnOptions(text="x"),)}, "use a model whose `accepts`"),
        (CLONE, {"turns": (TurnOptions(text="x"),)}, "send one recording as ref_audio"),
        (PLAIN, {"speaker": 1}, "name a voice"),
    ],
)
def test_turns_that_a_model_cannot_take_are_refused_with_what_to_change(
    model: Model, asked: dict[str, Any], instead: str
) -> None:
    for lenient in (True, False):
        with pytest.raises(Unsupported, match=instead) as refused:
            RequestOptions(**asked).obeyed(model, VOICE, lenient=lenient)
        assert refused.value.param in asked
