"""What a CSM checkpoint accepts, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.unit.ttscommon.sound.test_recordings import wav
from tests.unit.ttsfamilies.codecs import mimi_net
from tests.unit.ttsfamilies.csm.tiny import tiny
from ttscommon.engine.checkpoint import CheckpointError, dump_json
from ttscommon.wire.errors import BadRequest, NothingToSay, TextTooLong
from ttscommon.wire.fields import Derived
from ttscommon.wire.messages import Reference, Sampling, SpeechRequest, Turn
from ttscommon.wire.pieces import Boundary, Pause, Phones, Piece, Text
from ttsfamilies.base.lm.turns import FRAME, TurnsPrompt
from ttsfamilies.codecs import load as load_codec
from ttsfamilies.csm.family import load_net
from ttsfamilies.csm.mimi.net import context_frames, load_decoder, load_sizes
from ttsfamilies.csm.mimi.synthetic import TINY, add_decoder
from ttsfamilies.csm.request import load_generation, usual_drawing
from ttsfamilies.csm.synthetic import write_checkpoint
from ttsfamilies.known import FAMILIES

SOUND = Reference("0" * 16 + "-" + "0" * 64)
FRAMES = np.arange(20, dtype=np.int16).reshape(5, 4)[:, :3]


def prompt(text: str = "Hello.", sounds: Any = (), **changes: Any) -> TurnsPrompt:
    request = SpeechRequest("r", "m", "", "", **changes)
    (found,) = tiny().prepare(request, Derived(None, sounds)).read([Text(text)], final=True)
    return found


def test_text_in_pieces_becomes_one_prompt_when_it_is_complete() -> None:
    prepared = tiny().prepare(SpeechRequest("r", "m", "", ""))
    pieces: list[Piece] = [Text("Hello"), Pause(0.1), Boundary(), Phones("the", "dh ah")]
    assert list(prepared.read(pieces, final=False)) == []
    (found,) = prepared.read([Text(" world. ")], final=True)
    whole = prompt("Hello  the world.")
    assert found.text.tolist() == whole.text.tolist()
    assert (found.text[0], found.text[-1]) == (128_000, 128_001)


def test_turns_come_first_and_a_speaker_says_who_goes_on() -> None:
    alone, other = prompt(), prompt(speaker=3)
    turns = (Turn(1, "Hi.", SOUND), Turn(0, "Odd."))
    found = prompt(turns=turns, sounds=[{"codes": FRAMES}, None])
    (first,) = np.flatnonzero(np.diff(found.text == FRAME, prepend=False))[:1]
    assert found.text[first - 1] == 128_001
    np.testing.assert_array_equal(found.codes[first : first + 5], FRAMES)
    assert (found.text[first : first + 6] == FRAME).all()
    assert not found.codes[first + 5 :].any()
    assert found.text[first + 6 :].tolist() == [*prompt("Odd.").text, *alone.text]
    assert len(other.text) == len(alone.text)
    assert (other.text != alone.text).sum() == 1


def test_a_recording_is_the_first_turn_of_the_speaker_who_goes_on() -> None:
    sound = {"codes": FRAMES}
    said = Reference("0" * 16 + "-" + "0" * 64, "Hi.")
    later = [Turn(0, "Odd.")]
    request = SpeechRequest("r", "m", "", "", reference=said, speaker=2, turns=tuple(later))
    (found,) = tiny().prepare(request, Derived(sound, [None])).read([Text("Hello.")], final=True)
    turns = (Turn(2, "Hi.", SOUND), *later)
    wanted = prompt(speaker=2, turns=turns, sounds=[sound, None])
    np.testing.assert_array_equal(found.text, wanted.text)
    np.testing.assert_array_equal(found.codes, wanted.codes)


def test_a_recording_without_its_words_is_refused() -> None:
    with pytest.raises(BadRequest, match="needs ref_text"):
        tiny().prepare(SpeechRequest("r", "m", "", "", reference=SOUND), Derived({"codes": FRAMES}))


def test_speech_is_limited_by_its_text_or_by_what_is_asked_for() -> None:
    short, long = prompt("Odd."), prompt("Odd. " * 20)
    assert 25 < short.frames < long.frames < 2048
    for asked, frames in ((7, 7), (100_000, 2048 - len(short.text))):
        assert prompt("Odd.", sampling=Sampling(max_new_tokens=asked)).frames == frames


def test_a_small_cache_makes_room_for_prompt_and_speech() -> None:
    family = tiny()
    family.fit(64)
    (found,) = family.prepare(SpeechRequest("r", "m", "", "")).read([Text("Odd.")], final=True)
    assert found.frames == 64 - len(found.text)
    with pytest.raises(TextTooLong, match="can speak 8"):
        list(family.prepare(SpeechRequest("r", "m", "", "")).read([Text("odd " * 9)], final=True))


def test_what_cannot_be_spoken_is_refused() -> None:
    with pytest.raises(NothingToSay):
        prompt("... !")
    with pytest.raises(TextTooLong, match="256"):
        prompt("odd " * 300)
    turns = tuple(Turn(0, "Odd.", SOUND) for _ in range(4))
    with pytest.raises(TextTooLong, match="1024"):
        prompt(turns=turns, sounds=[{"codes": np.zeros((300, 3), np.int16)}] * 4)


def test_a_recording_becomes_frames_of_the_codec() -> None:
    found = tiny().derive(wav(1.5, rate=16_000))["codes"]
    assert (found.shape, found.dtype) == ((19, 3), np.dtype(np.int16))
    assert len(tiny().revision) == 32


def test_a_checkpoint_says_how_ids_are_drawn(tmp_path: Path) -> None:
    greedy = {"do_sample": False, "depth_decoder_temperature": 0.7, "top_k": 5}
    dump_json(tmp_path / "generation_config.json", greedy)
    of = usual_drawing(load_generation(tmp_path))
    assert (of.temperature, of.top_k, of.subtalker_temperature, of.subtalker_top_k) == (
        *(0.0, 5, 0.7, 50),
    )
    asked = of.with_asked(Sampling(temperature=0.3, subtalker_top_p=0.5))
    assert (asked.temperature, asked.subtalker_top_p) == (0.3, 0.5)
    assert usual_drawing(load_generation(tmp_path / "none")).temperature == 0.9


def test_the_table_of_codes_is_found_under_either_name(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, codebooks=4)
    path, names = tmp_path / "model.safetensors", (
        "depth_decoder.model.embed_tokens.weight",
        "backbone_model.embed_tokens.embed_audio_tokens.weight",
    )  # fmt: skip
    tensors = load_file(path)
    wanted = tensors.pop(names[0])
    for held in (names[1:], names):
        save_file({**tensors, **{name: wanted.clone() for name in held}}, path)
        assert torch.equal(load_net(tmp_path, "cpu", "float32").depth.codes.weight, wanted)


def test_the_form_that_transformers_reads_is_found_beside_another(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, codebooks=4, shard_bytes=1_000_000)
    for path in tmp_path.glob("model*"):
        text = path.name.replace("model", "transformers", 1)
        path.rename(tmp_path / text)
    index = tmp_path / "transformers.safetensors.index.json"
    index.write_text(index.read_text().replace("model-0", "transformers-0"))
    save_file({"projection.weight": torch.zeros(1)}, tmp_path / "model.safetensors")
    said = json.loads((tmp_path / "config.json").read_text())
    dump_json(tmp_path / "config.json", said | {"transformers_weights": index.name})
    assert load_net(tmp_path, "cpu", "float32").config.num_codebooks == 4
    dump_json(tmp_path / "config.json", said | {"transformers_weights": "../model.safetensors"})
    with pytest.raises(CheckpointError, match="transformers_weights"):
        load_net(tmp_path, "cpu", "float32")


def test_a_mimi_within_a_talkers_checkpoint_or_by_itself_is_the_same_codec(tmp_path: Path) -> None:
    alone, talker = tmp_path / "alone", tmp_path / "talker"
    add_decoder(alone, seed=2)
    dump_json(talker / "config.json", {"model_type": "csm", "codec_config": TINY})
    held = {f"codec_model.{name}": t for name, t in load_file(alone / "model.safetensors").items()}
    save_file({**held, "lm_head.weight": torch.zeros(1)}, talker / "model.safetensors")
    for folder in (alone, talker):
        assert FAMILIES.codec_of(folder)[0].name == "mimi"
        found = load_decoder(folder).state_dict()
        assert all(
            torch.equal(found[key], tensor) for key, tensor in mimi_net().state_dict().items()
        )
    assert load_codec("m", talker).spec.family == "mimi"


def test_mimis_published_sizes_reach_back_eighty_seconds(tmp_path: Path) -> None:
    dump_json(tmp_path / "config.json", {"model_type": "mimi"})
    sizes, _ = load_sizes(tmp_path)
    assert sizes.frame_samples == 1920
    assert 80 < context_frames(sizes) / 12.5 < 81
