"""Pocket TTS's samples, latents of recordings and division of texts are the official package's."""

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from tests.parity.csm_cases import wav
from tests.parity.families.pocket_tts import write_pocket
from tests.parity.material import GOLDENS, arrays
from tests.parity.pocket_cases import CASES, RULES, TEXTS, hashed, latents, recording
from ttscommon.engine.nn.weights import published_shapes
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.pocket_tts.codec import LatentDecoder
from ttsfamilies.pocket_tts.codec import sources as decoder_sources
from ttsfamilies.pocket_tts.family import load
from ttsfamilies.pocket_tts.net import PocketEncoder, PocketNet, encoder_sources, sources
from ttsfamilies.pocket_tts.sizes import PocketConfig, languages, load_config, published
from ttsfamilies.pocket_tts.tokenizer import Chunks, load_tokenizer, prompt

pytestmark = pytest.mark.slow  # one more family

WANTED: dict[str, Any] = json.loads((GOLDENS / "pocket_tts.json").read_text("utf-8"))
SOUNDS = arrays("pocket_tts")
REQUEST = SpeechRequest("r", "m", "", "text", seed=1)
VALUES, OF = latents()
COUNT = len(OF)
CLOSE = 2e-5
checkpoints = pytest.mark.parametrize("name", ["pocket", "pocket-small"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("codec")
    for name in ("pocket", "pocket-small"):
        write_pocket(found / name, name)
    return found


@checkpoints
@pytest.mark.parametrize("rate", [8000, 24_000, 44_100])
def test_a_recordings_latents_are_the_references(folder: Path, name: str, rate: int) -> None:
    case = next(case for case in CASES if case.seconds)
    heard = load("m", folder / name).derive(wav(recording(case, rate), rate))
    np.testing.assert_allclose(heard["latents"], SOUNDS[f"{name}/heard at {rate}"], atol=CLOSE)


@pytest.mark.parametrize("rules", RULES)
def test_a_text_is_divided_as_the_reference_divides_it(folder: Path, rules: str) -> None:
    config = load_config(folder / "pocket")
    config = PocketConfig(**{**vars(config), "replace_characters": {}, **RULES[rules]})
    tokenizer = load_tokenizer(folder / "pocket", config.flow_lm.lookup_table)
    for text, wanted in zip(TEXTS, WANTED["divisions"][rules], strict=True):
        for size in (len(text), 1, 7):
            chunks = Chunks(config, tokenizer)
            found: list[str] = []
            for at in range(0, len(text), size):
                found += chunks.feed(text[at : at + size], final=False)
            found += chunks.feed("", final=True)
            assert [list(prompt(config, chunk)) for chunk in found] == wanted


def test_the_published_configurations_are_the_packages() -> None:
    assert set(languages()) == WANTED["published"].keys()
    for name, theirs in WANTED["published"].items():
        found = msgspec.convert(published(name), PocketConfig)
        assert found == msgspec.convert(theirs | {"language": found.language}, PocketConfig)
        assert not found.problems()


@pytest.mark.parametrize("name", languages())
def test_names_and_shapes_of_all_published_tensors_are_the_references(name: str) -> None:
    config = msgspec.convert(published(name), PocketConfig)
    with torch.device("meta"):
        net, encoder, decoder = (
            PocketNet(config), PocketEncoder(config.mimi), LatentDecoder(config.mimi)
        )  # fmt: skip
    shapes = published_shapes(net, sources(net))
    shapes |= published_shapes(encoder, encoder_sources(encoder))
    shapes |= published_shapes(decoder, decoder_sources(decoder))
    assert hashed(shapes) == WANTED["shapes"][name]
