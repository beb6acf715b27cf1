"""What a Zonos checkpoint accepts, what it refuses, and what its settings change."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from tests.parity.zonos_cases import PHONES, SAID, TEXT, WORDS
from tests.unit.ttsfamilies.zonos.tiny import readings, tiny
from ttscommon.engine.checkpoint import CheckpointError, dump_json, read_json
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import BadRequest, NothingToSay, TextTooLong, UnknownVoice
from ttscommon.wire.fields import Arrays, Derived
from ttscommon.wire.messages import Reference, SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.base.talker.base import check
from ttsfamilies.base.talker.served import ServedFamily
from ttsfamilies.zonos.facts import EMOTIONS, END, MASK
from ttsfamilies.zonos.phones import Readings, code_of, ids_of
from ttsfamilies.zonos.recordings import ZonosRecordings, load_voices
from ttsfamilies.zonos.request import ends
from ttsfamilies.zonos.synthetic import write_checkpoint

_SOUND = "0" * 16 + "-" + "0" * 64
SENTENCE = "It's the end of the world, and you're singing to the user. "


def request(**changes: Any) -> SpeechRequest:
    asked: dict[str, Any] = {"voice": "default", "text": "", "seed": 5}
    return SpeechRequest("r", "m", **asked | changes)


def spoken(**changes: Any) -> Arrays:
    engine = Engine(tiny(3), slots=1, blocks=64, metrics=Metrics())
    (made,) = synthesise(engine, [request(text="Odd.", **changes)])
    return made.arrays


def test_rows_are_delayed_from_a_mask_to_a_mask() -> None:
    rows = spoken()["codes"]
    assert rows.shape == (3 + 8, 9)
    for row, codes in enumerate(rows):
        assert [code == MASK for code in codes] == [not 0 <= row - c < 3 for c in range(9)]


def test_conditions_speed_and_language_change_what_is_said() -> None:
    plain = spoken()["codes"].tolist()
    for change in ({"voice": "slt"}, {"speed": 2.0}, {"language": "en-GB"}):
        assert spoken(**change)["codes"].tolist() != plain, change
    for name, value in (("anger", 1.0), ("fmax", 8000.0), ("pitch_std", 200.0), ("guidance", 5)):
        assert spoken(extra_params={name: value})["codes"].tolist() != plain, name


def test_without_guidance_a_stream_has_one_branch() -> None:
    streams = [
        tiny().open(tiny().prepare(request(extra_params={"guidance": guidance})))
        for guidance in (1.0, 2.0)
    ]
    assert [stream.branches for stream in streams] == [1, 2]
    assert len(spoken(extra_params={"guidance": 1.0})["codes"]) == 11


def test_what_cannot_be_spoken_is_refused() -> None:
    with pytest.raises(UnknownVoice, match="default, slt"):
        tiny().prepare(request(voice="nobody"))
    with pytest.raises(BadRequest, match="speed is"):
        check(tiny().spec, request(speed=3.0))
    with pytest.raises(BadRequest, match="emotion"):
        tiny().prepare(request(extra_params=dict.fromkeys(EMOTIONS, 0.0)))
    with pytest.raises(NothingToSay):
        list(tiny().prepare(request()).read([Text("... !")], final=True))
    small = tiny()
    small.fit(128)
    with pytest.raises(TextTooLong, match="split it"):
        list(small.prepare(request()).read([Text(SENTENCE)], final=True))
    for language in ("ja", "xx"):
        with pytest.raises(BadRequest, match="does not speak"):
            tiny().prepare(request(language=language))


def test_english_has_the_phones_that_goldens_were_made_of() -> None:
    for text, phones in ((TEXT, PHONES), (WORDS, SAID)):
        assert "".join(readings().of("en", "own")(text, ()).symbols) == phones


def test_languages_and_espeaks_phones_need_the_program() -> None:
    without = Readings(readings()._english, espeak="/nowhere/espeak-ng")
    assert without.tags == ("en-US", "en-GB")
    for language, way in (("de", "own"), ("en", "espeak")):
        with pytest.raises(BadRequest, match="is not installed"):
            without.of(language, way)


def test_espeak_reads_other_languages_where_it_is(tmp_path: Path) -> None:
    program = tmp_path / "espeak-ng"
    program.write_text("#!/bin/sh\ncat >/dev/null; echo $4 | sed 's/^/vɔɐ̯t /'\n", "utf-8")
    program.chmod(0o755)
    installed = Readings(readings()._english, espeak=str(program))
    assert "de" in installed.tags
    said = "".join(installed.of("de", "own")("Wort.", ()).symbols)
    assert said == "vɔɐ̯t de."
    assert ids_of(said)[:2] == (2, ids_of("v")[1])
    assert ids_of(said).count(1) == 1  # the table has no mark of a short vowel


def test_tags_are_what_espeak_calls_them() -> None:
    tags = ("en", "en-GB", "fr", "zh-CN", "pt-BR", "de-AT", "no")
    named = ("en-us", "en-gb", "fr-fr", "cmn", "pt-br", "de", "nb")
    assert tuple(map(code_of, tags)) == named


def test_a_silent_frame_keeps_the_rows_of_two_passages_apart_also_when_resumed() -> None:
    asked = request(text=SENTENCE * 8)

    def said(restored: Arrays | None = None) -> Arrays:
        engine = Engine(ServedFamily(tiny(3), guards=False), slots=1, blocks=128, metrics=Metrics())
        (made,) = synthesise(engine, [asked], None if restored is None else {"r": restored})
        return made.arrays

    whole = said()
    assert whole["silent"].tolist() == [0] * 11 + [1] + [0] * 11
    for at in (1, 11, 12, 20):
        rest = said({name: array[:at] for name, array in whole.items()})
        assert rest["codes"].tolist() == whole["codes"][at:].tolist()


def test_a_recording_of_known_words_is_gone_on_from_and_alone_it_is_a_voice() -> None:
    heard: Arrays = {
        "speaker": np.ones((1, 128), np.float32),
        "codes": np.arange(27, dtype=np.int16).reshape(3, 9),
    }
    asked = request(reference=Reference(_SOUND, "How odd."))
    (words,) = tiny().prepare(asked, Derived(heard)).read([Text("Odd.")], final=True)
    wordless = request(reference=Reference(_SOUND))
    (alone,) = tiny().prepare(wordless, Derived(heard)).read([Text("Odd.")], final=True)
    assert words.ids.shape[1] > alone.ids.shape[1]
    assert alone.columns.tolist() == [[MASK] * 9]
    assert words.columns[:, 0].tolist() == [MASK, 0, 9, 18]
    assert words.opening[0].tolist() == [-1, 19, 11, 3, *[MASK] * 5]


def test_voices_of_a_folder_are_vectors_of_128_numbers(tmp_path: Path) -> None:
    assert load_voices(tmp_path) == {}
    save_file({"anna": np.ones((1, 1, 128), np.float32)}, tmp_path / "voices.safetensors")
    assert load_voices(tmp_path)["anna"].shape == (128,)
    save_file({"anna": np.ones(64, np.float32)}, tmp_path / "voices.safetensors")
    with pytest.raises(CheckpointError, match="anna is no speaker's vector"):
        load_voices(tmp_path)


def test_without_its_encoders_a_checkpoint_clones_no_voices() -> None:
    none = ZonosRecordings(None, None)
    assert none.accepts == ()
    assert "ref_audio" not in tiny().spec.accepts
    with pytest.raises(BadRequest, match="clone"):
        none.derive(b"")


def test_encoders_of_another_codec_are_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    path = tmp_path / "dac" / "config.json"
    dump_json(path, read_json(path, dict[str, object]) | {"sampling_rate": 16_000})
    with pytest.raises(CheckpointError, match="another codec"):
        ZonosRecordings.load(tmp_path)


def test_an_end_that_is_drawn_first_ends_nothing() -> None:
    rows = np.full((4, 9), MASK)
    rows[[0, 2], 0] = END
    assert ends(rows)[:, 0].tolist() == [False, False, True, False]
