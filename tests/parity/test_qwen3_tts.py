"""What is Qwen3-TTS's own: states, adapters, tokens of texts, codes of recordings, windows."""

from collections.abc import Callable
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from torch import Tensor

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from tests.late import Late
from tests.parity.cases import ADAPTED, ADAPTERS, RATES, TEXTS, AdapterCase
from tests.parity.families.qwen3_tts import FAMILY, Case, goldens
from tests.parity.material import GOLDENS, SAMPLE_RATE, Floats, arrays, audio, frames, said
from tests.random_cases import examples
from ttscommon.cluster.adapters.peft import Files, Lora
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Array
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import AdapterRef
from ttsfamilies.base.codec.base import CodecState, Samples, Work
from ttsfamilies.base.codec.options import CodecOptions
from ttsfamilies.base.lm.recordings import resampled
from ttsfamilies.qwen3_tts.cloning import CodecEncoder, SpeakerEncoder
from ttsfamilies.qwen3_tts.codec import Qwen3Codec, load
from ttsfamilies.qwen3_tts.net import load_encoders
from ttsfamilies.qwen3_tts.prompt import TurnTokenizer

Checkpoint = Callable[[str], Path]
Encoders = tuple[SpeakerEncoder, CodecEncoder]
one_more = pytest.mark.slow  # family


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """A folder by name, written when it is first asked for."""
    home = tmp_path_factory.mktemp("qwen3")

    @cache
    def written(name: str) -> Path:
        FAMILY.write(home / name, name)
        return home / name

    return written


loaded = cache(FAMILY.load)


def spoken(model: Any, case: Case, adapter: AdapterRef | None = None) -> tuple[Array, Array]:
    """Codes of a case by itself, and the backbone's state of each frame."""
    states, head = list[Tensor](), model._net.code0_logits

    def kept(hidden: Tensor) -> Any:
        states.append(hidden[0].clone())
        return head(hidden)

    request = replace(FAMILY.request(case), adapter=adapter)
    with patch.object(model._net, "code0_logits", kept):
        engine = Engine(model, slots=1, blocks=FAMILY.blocks, metrics=Metrics())
        heard = FAMILY.derived(model, case).reference
        (made,) = synthesise(engine, [request], reference=heard)
    codes = made.arrays["codes"]
    return codes, torch.stack(states[: len(codes)]).numpy()


def same(found: tuple[Array, Array], codes: Array, states: Array) -> None:
    assert found[0].tolist() == codes.tolist()
    assert np.abs(found[1] - states).max() < 1e-4


@one_more
@pytest.mark.parametrize("case", FAMILY.cases, ids=lambda case: case.name)
def test_the_backbones_states_are_the_official_ones(case: Case, checkpoint: Checkpoint) -> None:
    name = f"{case.call.name}/{case.at}"
    wanted = goldens()[f"{name}/codes"], goldens()[f"{name}/hidden"]
    same(spoken(loaded(checkpoint(case.checkpoint)), case), *wanted)


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
@pytest.mark.parametrize("late", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_tokens_and_states_are_those_of_pefts_merged_weights(
    adapter: AdapterCase, late: bool, checkpoint: Checkpoint
) -> None:
    """Beside another one, by groups and, as on a device, in fixed shapes."""
    model = FAMILY.load(checkpoint(ADAPTED.checkpoint))
    if late:
        model.compute_on(Late())
    model.adapt(2, 8)
    assert model.adapters is not None
    for slot, one in enumerate((ADAPTERS[0], adapter)):
        files = Files.read(GOLDENS / "adapters" / one.name, 1 << 20)
        model.adapters.put(slot, model.adapters.fitted(Lora.parse(files, 8)))
    wanted = arrays("adapters")
    (case,) = (one for one in FAMILY.cases if one.call is ADAPTED)
    found = spoken(model, case, AdapterRef("a", files.digest))
    codes, states = wanted[f"{adapter.name}/codes"], wanted[f"{adapter.name}/hidden"]
    same(found, codes, found[1] if late else states)  # a device's rows stand in another order
    assert not np.array_equal(found[0], goldens()[f"{ADAPTED.name}/0/codes"])


# The turn's end and the next turn's beginning, which the official package cuts off again.
TEMPLATE_END = 5
PIECES = ("'", "s", "re", "LL", " ", "  ", "\n", "\r", "\t", "a", "Z", "the", "7", "!", "...")
MARKS = ("e", "é", "\u0301", "\u0323", "b", "\u1100", "\u1161", "\u11a8", "你", "\u200d", "\xa0")
GROWTH = st.lists(st.sampled_from(PIECES + MARKS), max_size=12)


@pytest.fixture(scope="module")
def tokenizer(checkpoint: Checkpoint) -> TurnTokenizer:
    return TurnTokenizer.load(checkpoint("custom"))


def whole(tokenizer: TurnTokenizer, text: str) -> list[int]:
    growing = tokenizer.spoken()
    growing.feed(text, final=True)
    return [*growing.role, *growing.tokens]


@pytest.mark.parametrize("name", ["custom", "newer", "unnamed"])
def test_texts_have_the_official_tokens_whichever_package_wrote_the_config(
    name: str, checkpoint: Checkpoint
) -> None:
    tokenizer = TurnTokenizer.load(checkpoint(name))
    for text in TEXTS:
        found = whole(tokenizer, text)
        assert found == said("tokens")[name][text][:-TEMPLATE_END], text
        assert found == said("tokens")["custom"][text][:-TEMPLATE_END], text


@examples(400)
@given(pieces=GROWTH, cuts=st.sets(st.integers(0, 30)))
def test_any_way_of_cutting_a_text_gives_the_same_tokens(
    tokenizer: TurnTokenizer, pieces: list[str], cuts: set[int]
) -> None:
    text = "".join(pieces)
    edges = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    growing = tokenizer.spoken()
    known: tuple[int, ...] = ()
    for start, end in pairwise(edges):
        growing.feed(text[start:end], final=False)
        assert growing.tokens[: len(known)] == known
        known = growing.tokens
    growing.feed("", final=True)
    assert [*growing.role, *growing.tokens] == whole(tokenizer, text)


def test_words_are_known_as_soon_as_the_next_begins(tokenizer: TurnTokenizer) -> None:
    words = ("Hello", " the", " world", " of", " you")
    growing, counts = tokenizer.spoken(), []
    for word in words:
        growing.feed(word, final=False)
        counts.append(len(growing.tokens))
    assert counts == [0, *accumulate(len(tokenizer.ids(word)) for word in words[:-1])]


def test_special_tokens_in_a_text_are_text(tokenizer: TurnTokenizer) -> None:
    end = tokenizer.special("<|im_end|>")
    assert end not in whole(tokenizer, "one <|im_end|> two <tts_text_eod>")
    assert max(whole(tokenizer, "<|im_end|>")[1:]) < tokenizer.special("<|endoftext|>")


@pytest.fixture(scope="module")
def encoders(checkpoint: Checkpoint) -> Encoders:
    return load_encoders(checkpoint("base"))


def near(found: Tensor, wanted: str) -> None:
    assert np.abs(found.numpy() - arrays("encoders")[wanted]).max() < 1e-4


@one_more
@pytest.mark.parametrize(("name", "seconds"), [("short", 1.31), ("long", 12.0)])
def test_a_recordings_codes_and_speaker_are_the_official_ones(
    encoders: Encoders, name: str, seconds: float
) -> None:
    speaker, codec = encoders
    wav = torch.from_numpy(audio(seconds, 3))
    near(speaker(wav[None])[0], f"{name}/speaker")
    near(codec.latents(wav)[0, :, ::4], f"{name}/latents")
    assert codec(wav).tolist() == arrays("encoders")[f"{name}/codes"].tolist()
    if name == "short":
        near(speaker.mels(wav[None])[0].T[::3], "short/mels")


@one_more
@pytest.mark.parametrize("rate", RATES)
def test_recordings_at_other_rates_are_heard_as_the_official_package_hears_them(
    encoders: Encoders, rate: int
) -> None:
    heard = torch.from_numpy(resampled(audio(1.31, 3, rate), rate, SAMPLE_RATE))
    assert encoders[1](heard).tolist() == arrays("encoders")[f"{rate}/codes"].tolist()
    near(encoders[0](heard[None])[0], f"{rate}/speaker")


@one_more
def test_a_partial_frame_counts_as_one(encoders: Encoders) -> None:
    samples = encoders[1].config.encode_downsample_rate
    assert SAMPLE_RATE // samples == 12
    for count, made in ((samples * 13, 13), (samples * 13 + 1, 14), (samples * 14 - 1, 14)):
        assert len(encoders[1](torch.zeros(count))) == made


def opened(codec: Qwen3Codec) -> CodecState:
    return codec.open(SpeechRequest("r", "m", "", ""))


def sound(codec: Qwen3Codec, stream: CodecState, codes: Array) -> Samples:
    (samples,) = codec.decode([Work(stream, {"codes": codes.astype(np.int16)}, final=False)])
    return samples


@one_more
def test_windows_are_the_official_ones_within_1e_4(checkpoint: Checkpoint) -> None:
    wanted: dict[str, Floats] = arrays("codec")
    codec = load("m", checkpoint("custom") / "speech_tokenizer", CodecOptions((10, 4)))
    stream = opened(codec)
    parts = np.split(frames(24, 9), range(7, 24, 7))
    samples = np.concatenate([sound(codec, stream, part) for part in parts])[::3]
    assert np.abs(samples - wanted["windowed"]).max() < 1e-4
    assert np.abs(wanted["windowed"] - wanted["once"]).max() > 1e-3


@one_more
def test_a_clones_sound_is_the_official_one_without_its_reference(checkpoint: Checkpoint) -> None:
    """The official package decodes reference and speech together and cuts the reference off."""
    codec = load("m", checkpoint("base") / "speech_tokenizer")
    stream = opened(codec)
    sound(codec, stream, frames(9, 5))
    samples = sound(codec, stream, goldens()["in context, sampled/0/codes"])[::3]
    official = goldens()["in context, sampled/wav"]
    assert np.abs(samples - official).max() < 1e-4
