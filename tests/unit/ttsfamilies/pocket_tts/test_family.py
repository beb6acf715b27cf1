"""What a Pocket TTS checkpoint accepts, what it makes of a text, and what it refuses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from tests.unit.ttscommon.sound.test_recordings import wav
from tests.unit.ttsfamilies.pocket_tts.tiny import tiny
from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.nn import HalfLinear, halve
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import BadRequest, NothingToSay, TextTooLong, UnknownVoice
from ttscommon.wire.fields import Derived
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttscommon.wire.pieces import Boundary, Pause, Phones, Piece, Text
from ttsfamilies.csm.mimi.net import context_frames
from ttsfamilies.known import FAMILIES
from ttsfamilies.pocket_tts.family import load, resampled
from ttsfamilies.pocket_tts.net import load_net
from ttsfamilies.pocket_tts.request import BEGIN, HEARD, KEPT, Prompt
from ttsfamilies.pocket_tts.sizes import PocketConfig, load_config, published
from ttsfamilies.pocket_tts.synthetic import pieces, small_decoder, write_checkpoint
from ttsfamilies.pocket_tts.synthetic import tiny as config
from ttsfamilies.pocket_tts.tokenizer import load_tokenizer

SENTENCE = "the end of the world is singing, and to say it is one. "


def request(**changes: Any) -> SpeechRequest:
    return SpeechRequest("r", "m", changes.pop("voice", "slt"), "", **changes)


def prompts(*told: Piece | str, **changes: Any) -> list[Prompt]:
    prepared = tiny().prepare(request(**changes))
    whole = [Text(each) if isinstance(each, str) else each for each in told]
    return list(prepared.read(whole, final=True))


def test_a_text_is_told_in_chunks_and_each_says_how_long_it_may_be() -> None:
    few, (long, *others) = prompts("odd")[0], prompts(SENTENCE * 4)
    assert others
    assert (few.after, long.after) == (5, 3)
    assert long.length == 21 + len(long.tokens) + 1
    assert long.frames == int(np.ceil((len(long.tokens) / 3 + 2) * 12.5))


def test_a_boundary_ends_a_chunk_and_other_pieces_are_read() -> None:
    one, other = prompts("one", Boundary(), "the", Phones(" end", "e n d"), Pause(0.1))
    assert [one.tokens, other.tokens] == [prompts("one")[0].tokens, prompts("the end")[0].tokens]


def test_a_request_says_how_latents_are_drawn() -> None:
    drawing = tiny().prepare(request()).drawing
    assert drawing.deviation == pytest.approx(0.3**0.5)
    assert drawing.threshold == -4.0
    asked = {"eos_threshold": -1.5, "frames_after_eos": 7}
    sampling = Sampling(temperature=0.0, max_new_tokens=9)
    prepared = tiny().prepare(request(extra_params=asked, sampling=sampling))
    assert (prepared.drawing.deviation, prepared.drawing.threshold) == (0.0, -1.5)
    assert prepared.most_frames == 9
    assert [unit.after for unit in prepared.read([Text("odd")], final=True)] == [7]


def test_what_cannot_be_spoken_is_refused() -> None:
    with pytest.raises(NothingToSay):
        prompts("... !")
    with pytest.raises(UnknownVoice, match="there are slt, and others"):
        prompts("odd", voice="alba")
    with pytest.raises(TextTooLong, match="1024"):
        prompts("the " * 1200)


def test_a_voice_is_published_keys_or_a_recording() -> None:
    kept = tiny().prepare(request()).voice
    assert set(kept.kind) == {KEPT}
    assert kept.id.tolist() == list(range(21))
    latents = tiny().derive(wav(1.5, rate=16_000))
    heard = tiny().prepare(request(), Derived(latents)).voice
    assert heard.kind.tolist() == [BEGIN, *[HEARD] * len(latents["latents"])]
    np.testing.assert_array_equal(heard.row[1:], latents["latents"])
    assert len(tiny().revision) == 32


def test_voices_of_a_folder_are_listed_and_say_other_things(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, voices=("anna", "bill_boerst"))
    family = load("m", tmp_path)
    assert [(v.id, v.name) for v in family.spec.voices] == [
        ("anna", "Anna"),
        ("bill_boerst", "Bill Boerst"),
    ]
    one, other = (
        synthesise(
            Engine(family, slots=1, blocks=200, metrics=Metrics()),
            [SpeechRequest("r", "m", voice, "odd", seed=1)],
        )[0].arrays["latent"]
        for voice in ("anna", "bill_boerst")
    )
    assert not np.allclose(one[:4], other[:4])


def test_a_checkpoint_without_cloning_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "pocket-tts-without-voice-cloning"
    write_checkpoint(folder)
    family = load("m", folder)
    assert "ref_audio" not in family.spec.accepts
    with pytest.raises(BadRequest, match="cannot clone"):
        family.derive(wav(1.5))
    with pytest.raises(UnknownVoice, match="there are slt"):
        family.prepare(request(voice="alba"))
    write_checkpoint(tmp_path / "none", config(voice_cloning=False), voices=())
    with pytest.raises(CheckpointError, match="no voices"):
        load("m", tmp_path / "none")


def test_a_published_folder_needs_no_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "french_24l"
    folder.mkdir()
    save_file({"flow_lm.bos_emb": torch.zeros(32)}, folder / "model.safetensors")
    assert FAMILIES.of(folder).name == FAMILIES.codec_of(folder)[0].name == "pocket_tts"
    found = load_config(folder)
    assert (found.flow_lm.transformer.num_layers, found.language) == (24, "fr")
    assert found.remove_semicolons
    with pytest.raises(CheckpointError, match="published languages"):
        load_config(tmp_path)


@pytest.fixture
def sentencepiece(tmp_path: Path) -> Path:
    """A checkpoint whose ids are a sentencepiece model's."""
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    stem = tmp_path / "tokenizer"
    SentencePieceTrainer.train(
        sentence_iterator=iter([SENTENCE, ", . 3.14 a? b!"] * 3),
        model_prefix=str(stem),
        vocab_size=60,
        bos_id=-1,
        eos_id=-1,
        minloglevel=2,
        hard_vocab_limit=False,
    )
    ids = SentencePieceProcessor(model_file=f"{stem}.model").vocab_size()
    told = config()
    told["flow_lm"]["lookup_table"] |= {"tokenizer": "sentencepiece", "n_bins": ids}
    write_checkpoint(tmp_path, told)
    (tmp_path / "tokenizer.json").unlink()
    return tmp_path


def test_small_checkpoints_have_a_sentencepiece_model(sentencepiece: Path) -> None:
    table = load_config(sentencepiece).flow_lm.lookup_table
    tokenizer = load_tokenizer(sentencepiece, table)
    ids, begins = tokenizer.tokens("the world is one.")
    assert tokenizer.text(ids) == "the world is one."
    assert (len(ids), begins[0]) == (len(begins), 0)
    assert begins == sorted(begins)
    family = load("m", sentencepiece)
    prepared = family.prepare(request())
    whole = list(prepared.read([Text(SENTENCE * 4)], final=True))
    pieces_of = family.prepare(request())
    found: list[Prompt] = []
    for c in SENTENCE * 4:
        found += pieces_of.read([Text(c)], final=False)
    assert len(whole) > 1
    assert found + list(pieces_of.read([], final=True)) == whole


@pytest.mark.parametrize(
    ("n_bins", "content", "message"),
    [(7, None, "but the configuration says 7"), (None, b"nothing", "not as expected")],
)
def test_a_tokenizer_that_does_not_fit_is_named(
    sentencepiece: Path, n_bins: int | None, content: bytes | None, message: str
) -> None:
    table = load_config(sentencepiece).flow_lm.lookup_table
    if content is not None:
        (sentencepiece / "tokenizer.model").write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        load_tokenizer(sentencepiece, replace(table, n_bins=n_bins or table.n_bins))


def test_a_json_tokenizer_of_other_ids_or_none_is_named(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    table = load_config(tmp_path).flow_lm.lookup_table
    with pytest.raises(CheckpointError, match=f"{len(pieces())} ids"):
        load_tokenizer(tmp_path, replace(table, n_bins=9))
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=r"tokenizer\.json cannot be read"):
        load_tokenizer(tmp_path, table)


LAYER = "transformer.layers.1.self_attn/"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.pop(f"{LAYER}cache"), "lacks transformer.layers.1"),
        (lambda v: v.update({f"{LAYER}offset": torch.tensor([9])}), "its layers differ"),
        (lambda v: v.update({"transformer.layers.2.self_attn/cache": torch.ones(1)}), "differ"),
        (lambda v: v[f"{LAYER}cache"][0, 0, 3].fill_(float("nan")), "damaged"),
        (lambda v: v.update({f"{LAYER}cache": torch.zeros(2, 1, 24, 4, 4)}), "keys of"),
    ],
)
def test_a_voice_that_does_not_fit_is_named(tmp_path: Path, change: Any, message: str) -> None:
    write_checkpoint(tmp_path)
    path = tmp_path / "embeddings" / "slt.safetensors"
    voice = load_file(path)
    change(voice)
    save_file(voice, path)
    with pytest.raises(CheckpointError, match=rf"slt\.safetensors.*{message}"):
        load("m", tmp_path)


def test_a_voice_of_an_older_file_is_as_long_as_its_tensor(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    path = tmp_path / "embeddings" / "slt.safetensors"
    voice = {
        name.replace("offset", "current_end"): torch.zeros(21) if "offset" in name else tensor
        for name, tensor in load_file(path).items()
    }
    save_file(voice, path)
    family = load("m", tmp_path)
    assert len(family.prepare(request()).voice.id) == 21


def test_a_decoder_may_have_sizes_of_its_own(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, config(mimi=small_decoder()))
    sizes = load_config(tmp_path).mimi
    assert (sizes.encoder_sizes.hidden_size, sizes.decoder_sizes.hidden_size) == (16, 8)


def test_the_published_sizes_reach_back_three_seconds() -> None:
    for name, frames in (("english", 33), ("english_18m_2026-10", 38)):
        sizes = msgspec.convert(published(name), PocketConfig).mimi.decoder_sizes
        assert sizes.frame_samples == 1920
        assert context_frames(sizes) == frames


@pytest.mark.parametrize("rate", [8000, 16_000, 22_050, 44_100, 48_000, 192_000])
def test_a_tone_keeps_its_pitch_and_length_at_another_rate(rate: int) -> None:
    tone = np.sin(2 * np.pi * 440 * np.arange(rate) / rate).astype(np.float32)
    found = resampled(tone, rate, 24_000)
    assert len(found) == 24_000
    wanted = np.sin(2 * np.pi * 440 * np.arange(24_000) / 24_000)
    np.testing.assert_allclose(found[500:-500], wanted[500:-500], atol=2e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_weights_that_were_stored_in_two_bytes_stay_in_two(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    write_checkpoint(tmp_path, dtype=dtype)
    net = load_net(tmp_path, "cpu")
    kinds = {type(module) for module in net.modules()}
    assert (HalfLinear in kinds, nn.Linear in kinds) == (dtype.itemsize == 2, dtype.itemsize == 4)


def test_a_weight_that_float16_does_not_hold_stays_as_it_is() -> None:
    kept, lost = nn.Linear(8, 8), nn.Linear(8, 8)
    for layer, scale in ((kept, 1.0), (lost, 1e6)):
        layer.weight.data = layer.weight.data.bfloat16().float() * scale
    both = nn.Sequential(kept, lost)
    assert halve(both, lossless=True)
    assert [type(layer) for layer in both] == [HalfLinear, nn.Linear]
