"""What a Kokoro checkpoint accepts and refuses, its phones, and when its words are said."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from tests.unit.ttsfamilies.kokoro.tiny import Tiny, english, parts, tiny
from ttscommon.engine.checkpoint import CheckpointError, codec_digest, dump_json
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import BadRequest, UnknownVoice
from ttscommon.wire.messages import Reference, SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.base.talker.base import check
from ttsfamilies.base.talker.options import LEXICON, ModelOptions
from ttsfamilies.base.text.frontend import EnglishFrontend, Word
from ttsfamilies.kokoro.family import load
from ttsfamilies.kokoro.request import spoken, ways_of
from ttsfamilies.kokoro.sizes import Voices, load_config
from ttsfamilies.kokoro.synthetic import PUBLISHED, VOCABULARY, shapes, write_checkpoint
from ttsfamilies.piper.phones import Espeak, Sentence

TEXT = "Nobody minded; we had time, and the water was quiet."


def request(**changes: Any) -> SpeechRequest:
    return SpeechRequest("r", "m", **{"voice": "af_sky", "text": TEXT} | changes)


def said(**changes: Any) -> Any:
    (made,) = synthesise(Engine(tiny(), slots=1, metrics=Metrics()), [request(**changes)])
    return made


def test_names_and_sizes_are_those_of_the_published_checkpoint(tmp_path: Path) -> None:
    dump_json(tmp_path / "config.json", PUBLISHED)
    config = load_config(tmp_path)
    found = shapes(config)
    assert sum(int(np.prod(shape)) for shape in found.values()) == 81_763_410
    assert sum(name.startswith("decoder.") for name in found) == 375
    assert (config.frame_samples, len(config.vocab)) == (600, 114)


def test_speed_and_the_pace_of_words_change_how_long_symbols_last() -> None:
    plain, fast = said(), said(speed=2.0)
    assert len(fast.arrays["left"]) < 0.7 * len(plain.arrays["left"])
    prepared = tiny().prepare(request())
    pieces = [Text("Nobody "), Text("minded.", rate=0.5)]
    (segment,) = prepared.read(pieces, final=True)
    paces = [segment.pace[word.start : word.end] for word in segment.words]
    assert {float(pace) for pace in paces[0]} == {1.0}
    assert {float(pace) for pace in paces[1]} == {0.5}


def test_a_voice_has_a_pace_of_its_own_and_a_blend_its_share() -> None:
    net, voices = parts()
    packs = {name: voices.pack(name) for name in ("af_sky", "am_adam")}
    config = replace(net.config, paces={"am_adam": 0.5})
    model = Tiny("m", net, Voices(packs, config), english())

    def paces(voice: str, speed: float = 1.0) -> set[float]:
        prepared = model.prepare(request(voice=voice, speed=speed))
        (segment,) = prepared.read([Text("Nobody minded.")], final=True)
        return set(segment.pace.tolist())

    assert paces("af_sky") == {1.0}
    assert (paces("am_adam"), paces("am_adam", 2.0)) == ({0.5}, {1.0})
    assert paces("af_sky+am_adam") == {0.75}


def test_words_are_said_for_as_long_as_their_symbols() -> None:
    made = said(text="Nobody minded.")
    prepared = tiny().prepare(request(text="Nobody minded."))
    (segment,) = prepared.read([Text("Nobody minded.")], final=True)
    place = made.arrays["place"]
    for word, time in zip(segment.words, made.words, strict=True):
        inside = np.flatnonzero((place >= word.start) & (place < word.end))
        assert time.start_s == pytest.approx(inside[0] / 40)
        assert time.end_s == pytest.approx((inside[-1] + 1) / 40)


def test_a_blend_is_between_its_voices_and_one_of_a_voice_is_that_voice() -> None:
    voices = tiny()._voices
    one, other = voices.pack("af_sky"), voices.pack("am_adam")
    np.testing.assert_array_equal(voices.pack("af_sky+af_sky"), one)
    blend = voices.pack("af_sky*3+am_adam*1")
    np.testing.assert_allclose(blend, 0.75 * one + 0.25 * other, rtol=1e-5, atol=1e-7)


def test_voices_without_a_frontend_are_not_listed() -> None:
    listed = tiny().spec.voices
    assert [voice.id for voice in listed] == ["af_heart", "af_sky", "am_adam", "bf_emma"]
    assert (listed[2].language, listed[2].gender) == ("en-US", "male")
    assert (listed[3].language, listed[3].gender) == ("en-GB", "female")


def test_what_cannot_be_spoken_is_refused() -> None:
    for voice in ("nobody", "ef_dora", "af_sky*0.5+ef_dora*0.5", "af_sky*"):
        with pytest.raises(UnknownVoice):
            tiny().prepare(request(voice=voice))
    for speed in (0.4, 2.1):
        with pytest.raises(BadRequest, match="speed"):
            check(tiny().spec, request(speed=speed))
    with pytest.raises(BadRequest, match="clone"):
        tiny().prepare(request(reference=Reference("0" * 16 + "-" + "0" * 64)))


def test_a_british_voice_reads_dates_as_in_britain() -> None:
    def ids(voice: str) -> tuple[int, ...]:
        prepared = tiny().prepare(request(voice=voice))
        return next(iter(prepared.read([Text("On 03/04/2024.")], final=True))).ids

    assert ids("bf_emma") != ids("af_sky")


def test_a_vocabulary_without_a_symbol_of_the_frontend_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"vocab": {"a": 43}}))
    with pytest.raises(CheckpointError, match="vocabulary lacks"):
        load("m", tmp_path)


def test_voices_that_are_missing_or_misshapen_are_named_and_tell_codecs_apart(
    tmp_path: Path,
) -> None:
    write_checkpoint(tmp_path)
    path, before = tmp_path / "voices.safetensors", codec_digest(tmp_path)
    packs = load_file(path)
    save_file({**packs, "af_two": packs["af_sky"]}, path)
    assert codec_digest(tmp_path) != before
    for name, pack, said in (
        ("af_sky", packs["af_sky"][1:], "af_sky is"),
        ("xf_two", packs["af_sky"], "no known language"),
        ("af_sky", packs["af_sky"] * np.nan, "no finite numbers"),
    ):
        save_file({**packs, name: np.ascontiguousarray(pack)}, path)
        with pytest.raises(CheckpointError, match=said):
            load("m", tmp_path)
    path.unlink()
    with pytest.raises(CheckpointError, match="antiphon convert"):
        load("m", tmp_path)


def test_its_talker_is_not_put_on_a_device(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="runs on the CPU"):
        load("m", tmp_path, ModelOptions(device=object()))  # type: ignore[arg-type]


def test_english_is_in_the_published_alphabet() -> None:
    found = spoken(english()["en-US"]("The quick brown fox.", ()))
    assert found.symbols == "ðə kwˈɪk bɹˈWn fˈɑks."
    assert set(found.symbols) <= VOCABULARY.keys()
    assert [found.symbols[w.start : w.end] for w in found.words] == [
        *("ðə", "kwˈɪk", "bɹˈWn", "fˈɑks")
    ]


def test_sounds_of_two_letters_become_one_and_words_keep_their_places() -> None:
    symbols = (*"mˈutʃo", " ", *"ˈaʊto", ".")
    words = (Word("mucho", 0, 6), Word("auto", 7, 12))
    found = spoken(Sentence((), words, (), symbols))
    assert found.symbols == "mˈuʧo ˈWto."
    assert [found.symbols[w.start : w.end] for w in found.words] == ["mˈuʧo", "ˈWto"]


def test_other_languages_are_there_where_espeak_is(monkeypatch: pytest.MonkeyPatch) -> None:
    frontend = EnglishFrontend.load(LEXICON)
    for there, tags in (
        (False, ["en-US", "en-GB"]),
        (True, ["en-US", "en-GB", "es", "fr", "hi", "it", "pt-BR"]),
    ):
        monkeypatch.setattr(Espeak, "installed", staticmethod(lambda there=there: there))
        assert list(ways_of(frontend)) == tags


@pytest.mark.skipif(not Espeak.installed(), reason="eSpeak NG is not installed")
@pytest.mark.parametrize(
    ("tag", "text"),
    [
        ("es", "Buenos días, ¿cómo estás?"),
        ("fr", "Bonjour, ça va bien?"),
        ("it", "Ciao, come stai?"),
        ("pt-BR", "Bom dia, tudo bem?"),
        ("hi", "नमस्ते, आप कैसे हैं?"),
    ],
)
def test_espeaks_phones_are_symbols_of_the_published_vocabulary(tag: str, text: str) -> None:
    found = spoken(ways_of(EnglishFrontend.load(LEXICON))[tag](text, ()))
    assert len(found.words) == len(text.split())
    strange = [symbol for symbol in found.symbols if symbol not in VOCABULARY]
    assert len(strange) <= 2, strange
    assert len(found.symbols) > len(found.words) * 2
