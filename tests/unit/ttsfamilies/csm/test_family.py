"""What a CSM checkpoint accepts, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.unit.ttscommon.sound.test_recordings import wav
from tests.unit.ttsfamilies.csm.tiny import parts, tiny
from ttscommon.engine.checkpoint import CheckpointError, dump_json
from ttscommon.wire.errors import BadRequest, NothingToSay, TextTooLong
from ttscommon.wire.fields import Derived
from ttscommon.wire.messages import Reference, Sampling, SpeechRequest, Turn
from ttscommon.wire.pieces import Boundary, Pause, Phones, Piece, Text
from ttsfamilies.base.lm.turns import FRAME, TurnsPrompt
from ttsfamilies.csm.family import load, load_encoder, load_net
from ttsfamilies.csm.request import load_config, load_generation, usual_drawing
from ttsfamilies.csm.synthetic import config, write_checkpoint

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
    with pytest.raises(BadRequest, match="no WAV"):
        tiny().derive(b"no sound")


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tie_codebooks_embeddings": False}, "not tied"),
        ({"codebook_eos_token_id": 1}, "control ids"),
        ({"text_vocab_size": 128_000}, "none for a turn's end"),
        ({"num_codebooks": 5}, "disagree on num_codebooks"),
        ({"hidden_size": 36}, "disagree on vocab_size or hidden_size"),
        ({"num_key_value_heads": 3}, "no multiple of 3"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "yarn"),
        ({"codec_config": {"num_quantizers": 4, "trim_right_ratio": 0.5}}, "kind of Mimi"),
        ({"codec_config": {"num_quantizers": 4, "codebook_size": 4096}}, "than the codec's codes"),
    ],
)
def test_a_config_that_is_not_served_is_named(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    dump_json(tmp_path / "config.json", config(4) | changes)
    with pytest.raises(CheckpointError, match=message):
        load_config(tmp_path)


def test_new_files_name_the_rotation_otherwise(tmp_path: Path) -> None:
    old = config(4)
    new = old | {"rope_parameters": old["rope_scaling"] | {"rope_theta": old["rope_theta"]}}
    del new["rope_theta"], new["rope_scaling"]
    dump_json(tmp_path / "config.json", new)
    found = load_config(tmp_path)
    assert (found.theta, found.scaling["factor"]) == (500_000.0, 32.0)


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


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("backbone_model.norm.weight", lambda folder: load_net(folder, "cpu", "float32")),
        ("depth_decoder.codebooks_head.weight", lambda folder: load_net(folder, "cpu", "float32")),
        ("codec_model.downsample.conv.weight", lambda folder: load_encoder(folder, "cpu")),
    ],
)
def test_a_checkpoint_without_a_tensor_is_named(tmp_path: Path, name: str, load: Any) -> None:
    write_checkpoint(tmp_path, codebooks=4)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    del tensors[name]
    save_file(tensors, path)
    with pytest.raises(CheckpointError, match=rf"lacks {name}"):
        load(tmp_path)


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


def test_a_network_of_unlike_shape_is_named(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, codebooks=4)
    path = tmp_path / "config.json"
    said = json.loads(path.read_text())
    path.write_text(json.dumps(said | {"intermediate_size": 52}))
    with pytest.raises(CheckpointError, match=r"mlp\.gate_proj.* but config\.json makes it"):
        load_net(tmp_path, "cpu", "float32")


def test_a_checkpoint_in_shards_is_the_same_model(tmp_path: Path) -> None:
    for name, most in (("whole", 10**9), ("shards", 1_000_000)):
        write_checkpoint(tmp_path / name, seed=8, codebooks=3, ending=1.9, shard_bytes=most)
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    loaded = load("m", tmp_path / "shards")
    state = parts()[0].state_dict()
    for key, tensor in loaded._net.state_dict().items():
        assert torch.equal(tensor, state[key])
