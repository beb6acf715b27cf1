"""What is Mimi's own: its context, ids that are no codes, and codes of recordings."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.parity.csm_cases import FRAMES, codes, pcm
from tests.parity.families.csm import write_csm
from tests.parity.material import arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Samples, Work
from ttsfamilies.base.codec.stateful import CausalCodec
from ttsfamilies.csm.family import load_encoder
from ttsfamilies.csm.mimi.codec import load

REQUEST = SpeechRequest("r", "m", "", "text", seed=1)
FRAME_SAMPLES = 1920


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("mimi") / "csm"
    write_csm(found)
    return found


@pytest.fixture(scope="module")
def codec(folder: Path) -> CausalCodec:
    return load("m", folder)


def decoded(codec: CausalCodec, sizes: tuple[int, ...], begin: int = 0) -> Samples:
    """Samples of the frames from `begin` on, of a stream that knows no earlier ones."""
    stream, found, at = codec.open(REQUEST), [], begin
    for size in (*sizes, FRAMES):
        work = Work(stream, {"codes": codes()[at : at + size]}, final=at + size >= FRAMES)
        found += codec.decode([work])
        at = min(FRAMES, at + size)
    return np.concatenate(found)


def test_beyond_its_context_the_past_changes_no_sample_and_within_it_does(
    codec: CausalCodec,
) -> None:
    whole, context = arrays("mimi")["samples"], codec.spec.context_frames
    assert context is not None
    first = FRAMES - 3
    tail = decoded(codec, (), begin=first - context)[context * FRAME_SAMPLES :]
    np.testing.assert_allclose(tail, whole[first * FRAME_SAMPLES :], atol=1e-6)
    short = decoded(codec, (), begin=first - context // 3)[context // 3 * FRAME_SAMPLES :]
    assert np.abs(short - whole[first * FRAME_SAMPLES :]).max() > 1e-4


def test_ids_that_are_no_codes_are_read_as_the_last_code(codec: CausalCodec) -> None:
    odd, plain = codes()[:4].copy(), codes()[:4].copy()
    odd[1, 3], plain[1, 3] = 2050, 2047
    one, other = (
        codec.decode([Work(codec.open(REQUEST), {"codes": each}, final=True)])[0]
        for each in (odd, plain)
    )
    np.testing.assert_array_equal(one, other)


def test_a_recordings_codes_are_the_references(folder: Path) -> None:
    heard = torch.from_numpy(pcm(2.1, 4) / np.float32(32_768))
    wanted = arrays("mimi")["heard"]
    encoder = load_encoder(folder, "cpu")
    assert len(np.unique(wanted)) > 100
    np.testing.assert_array_equal(encoder(heard).numpy(), wanted)
    encoder.window = None
    assert (encoder(heard).numpy() != wanted).any()  # it is longer than the window
