"""What a Kyutai TTS checkpoint accepts, how its text waits, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tests.unit.ttsfamilies.kyutai_tts.tiny import parts, tiny
from ttscommon.engine.checkpoint import CODEC_FILE, CheckpointError, dump_json, named_file
from ttscommon.wire.errors import BadRequest, NothingToSay, TextTooLong, UnknownVoice
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Boundary, Pause, Phones, Piece, Text
from ttsfamilies.kyutai_tts import request as limits
from ttsfamilies.kyutai_tts.counters import Entry
from ttsfamilies.kyutai_tts.stream import KyutaiStream
from ttsfamilies.kyutai_tts.synthetic import SMALL, config, write_voice
from ttsfamilies.kyutai_tts.voices import load_voices


def entries(*pieces: Piece, **extra: Any) -> list[Entry]:
    request = SpeechRequest("r", "m", "slt", "", extra_params=extra)
    return list(tiny().prepare(request).read(pieces, final=True))


def test_words_keep_their_places_in_the_clients_text() -> None:
    found = entries(Text("Say (it)", 10), Text(" to: me", 18))
    told = [(entry.text, entry.first, entry.last) for entry in found]
    assert told == [("Say", 10, 13), ("(it)", 14, 18), ("to", 19, 21), ("me", 23, 25)]


def test_a_break_forces_its_length_and_ends_the_word_before_it() -> None:
    say, pause, it, world = entries(
        Text("say"), Pause(1.0), Text("it"), Boundary(), Phones("world", "w")
    )
    assert (pause.ids, pause.padding) == ((), 12)
    assert [entry.text for entry in (say, it, world)] == ["say", "it", "world"]
    assert say.padding == len(say.ids)
    assert entries(Text("say"), padding_between=0)[0].padding == 0


@pytest.mark.parametrize("text", ["", "... !", "()"])
def test_a_text_without_a_letter_is_nothing_to_say(text: str) -> None:
    with pytest.raises(NothingToSay):
        entries(Text(text), Pause(1.0))


def test_a_text_of_too_many_words_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_ENTRIES", 3)
    with pytest.raises(TextTooLong, match="3 words"):
        entries(Text("one two three four"))


def test_unknown_voices_and_guidances_are_refused() -> None:
    with pytest.raises(UnknownVoice, match="there are slt"):
        tiny().prepare(SpeechRequest("r", "m", "anna", ""))
    with pytest.raises(BadRequest, match=r"one of 1\.0, 1\.5"):
        entries(Text("one"), cfg_coef="1.2")


def test_a_word_begins_when_what_is_told_ahead_of_it_is_known() -> None:
    prepared = tiny().prepare(SpeechRequest("r", "m", "slt", ""))
    stream = tiny().open(prepared)
    assert isinstance(stream, KyutaiStream)
    stream.feed(list(prepared.read([Text("one to ")], final=False)), final=False)
    assert stream.plan(0) is None
    stream.feed(list(prepared.read([Text("say ")], final=False)), final=False)
    assert stream.plan(0) is not None


def test_voices_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    net, _, _ = parts()
    with pytest.raises(CheckpointError, match=r"kyutai/tts-voices.*\.5ea1@7\.safetensors"):
        load_voices(tmp_path, net)
    path = write_voice(tmp_path, "a/one", net.config, 1)
    assert load_voices(tmp_path, net).names == ("a/one",)
    longer = write_voice(tmp_path, "other", net.config, 1, positions=6)
    with pytest.raises(CheckpointError, match="differ in their length"):
        load_voices(tmp_path, net)
    longer.unlink()
    for values, said in ((torch.zeros(1, 9, 5), "another model"), (torch.inf, "finite")):
        told = values if isinstance(values, torch.Tensor) else torch.full((1, 16, 5), values)
        save_file({"speaker_wavs": told}, path)
        with pytest.raises(CheckpointError, match=said):
            load_voices(tmp_path, net)


def test_files_are_named_within_their_folder(tmp_path: Path) -> None:
    told = config(3, SMALL, layers=1) | {"mimi_name": "../mimi.safetensors"}
    dump_json(tmp_path / "config.json", told)
    with pytest.raises(CheckpointError, match=r"no \.safetensors file here"):
        named_file(tmp_path / "config.json", CODEC_FILE)
