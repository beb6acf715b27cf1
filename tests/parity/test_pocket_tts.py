"""What is Pocket TTS's own: each next frame, latents of recordings, texts' division, tensors."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from tests.parity.families.pocket_tts import FAMILY, told
from tests.parity.material import arrays, hashed, wav
from tests.parity.pocket_cases import CASES, RULES, TEXTS, Case, recording
from tests.parity.runner import Loaded, Run
from ttscommon.engine.nn.weights import published_shapes
from ttscommon.wire.fields import cut
from ttsfamilies.pocket_tts.codec import LatentDecoder
from ttsfamilies.pocket_tts.codec import sources as decoder_sources
from ttsfamilies.pocket_tts.family import load
from ttsfamilies.pocket_tts.net import PocketEncoder, PocketNet, encoder_sources, sources
from ttsfamilies.pocket_tts.sizes import PocketConfig, languages, load_config, published
from ttsfamilies.pocket_tts.tokenizer import Chunks, load_tokenizer, prompt

pytestmark = pytest.mark.slow  # one more family

# Of values of about 3.
CLOSE = 2e-5


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_told_the_references_frames_each_next_one_is_theirs(case: Case, tmp_path: Path) -> None:
    """A frame is fed back as floats, so that rounding would grow from frame to frame."""
    theirs, run = FAMILY.wanted(case), Run(Loaded(FAMILY, tmp_path, case.checkpoint))
    for at in range(1, len(theirs["left"]), 4):
        run.open(case, str(at), cut(theirs, 0, at))
    for name, found in run.finish().items():
        at = int(name)
        np.testing.assert_allclose(found["latent"][at], theirs["latent"][at], atol=CLOSE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("codec")
    for name in ("pocket", "pocket-small"):
        FAMILY.write(found / name, name)
    return found


@pytest.mark.parametrize("name", ["pocket", "pocket-small"])
@pytest.mark.parametrize("rate", [8000, 24_000, 44_100])
def test_a_recordings_latents_are_the_references(folder: Path, name: str, rate: int) -> None:
    case = next(case for case in CASES if case.seconds)
    heard = load("m", folder / name).derive(wav(recording(case, rate), rate))
    np.testing.assert_allclose(
        heard["latents"], arrays("pocket_tts")[f"{name}/heard at {rate}"], atol=CLOSE
    )


@pytest.mark.parametrize("rules", RULES)
def test_a_text_is_divided_as_the_reference_divides_it(folder: Path, rules: str) -> None:
    config = load_config(folder / "pocket")
    config = PocketConfig(**{**vars(config), "replace_characters": {}, **RULES[rules]})
    tokenizer = load_tokenizer(folder / "pocket", config.flow_lm.lookup_table)
    for text, wanted in zip(TEXTS, told()["divisions"][rules], strict=True):
        for size in (len(text), 1, 7):
            chunks = Chunks(config, tokenizer)
            found: list[str] = []
            for at in range(0, len(text), size):
                found += chunks.feed(text[at : at + size], final=False)
            found += chunks.feed("", final=True)
            assert [list(prompt(config, chunk)) for chunk in found] == wanted


def test_the_published_configurations_are_the_packages() -> None:
    assert set(languages()) == told()["published"].keys()
    for name, theirs in told()["published"].items():
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
    assert hashed(shapes) == told()["shapes"][name]
