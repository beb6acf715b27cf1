"""The flow of S3 tokens and HiFT beside their authors' code, in float64.

CosyVoice 2 and 3 with their streaming mask and without, Chatterbox as published, which has none,
and with the mask of CosyVoice 2; each in one shot and cut as a vocoder cuts it. Recordings are
heard as by the packages that CosyVoice and Chatterbox hear them with.
"""

from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from tests.parity import s3_cases as cases
from tests.parity.codec_runner import in_pieces
from tests.parity.codecs import CodecSubject
from tests.parity.cosyvoice_cases import RATES, SEED, STRIDE
from tests.parity.families.cosyvoice import write_hearing
from tests.parity.material import Floats, arrays, audio
from tests.unit.ttsfamilies.cosyvoice.s3_flow import tiny
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Work
from ttsfamilies.base.codec.options import CodecOptions
from ttsfamilies.base.codec.windowed import Noise
from ttsfamilies.base.s3.references import FlowReferences
from ttsfamilies.base.s3.weights import load_published_speaker, load_published_tokens
from ttsfamilies.cosyvoice.s3_flow.codec import S3Flow
from ttsfamilies.cosyvoice.s3_flow.flow import Networks
from ttsfamilies.cosyvoice.s3_flow.sound import Draws, fixed
from ttsfamilies.cosyvoice.s3_flow.stretches import S3Stream

pytestmark = pytest.mark.slow  # one more family

_ATOL = 1e-4
# Of samples: weights of convolutions are joined in float32.
_CLOSE = 5e-5


class Golden(S3Flow):
    """With the goldens' noise and recording."""

    def open(self, request: SpeechRequest, frame: int = 0) -> S3Stream:
        stream = super().open(request, frame)
        stream.draws = golden_draws(own=self.spec.family.startswith("chatterbox"))
        self.tell(stream, cases.recording())
        return stream


def golden_draws(*, own: bool) -> Draws:
    """CosyVoice's flow begins with the table that its authors draw."""

    def of(blocks: Any) -> Noise:
        return lambda block, first, count, device: torch.from_numpy(
            blocks[block][..., first : first + count]
        ).to(device)

    begins = of([cases.beginnings()])
    # What phases begin with is drawn a hundred blocks behind harmonics.
    even = of([*cases.even_noise(), *np.empty((91, 0)), *cases.phases()[:, None]])
    frames = (lambda *at: begins(0, *at)) if own else fixed(0, cases.MELS).frames
    return Draws(frames, of(cases.source_noise()), even)


@cache
def networks(kind: str, grid: int, *, double: bool = True) -> Networks:
    nets = deepcopy(tiny.networks(kind, grid))
    if double:
        nets.flow.double()
        nets.hift.double()
    return nets


def wanted(kind: str, grid: int, what: str) -> Floats:
    return np.asarray(arrays("s3_flow")[f"{kind}/{grid}/{what}"])


def codec(kind: str, grid: int, memory: int = 1 << 30, *, double: bool = True) -> Golden:
    how = CodecOptions(memory_bytes=memory)
    return Golden("m", kind, networks(kind, grid, double=double), how)


def frames(of: S3Flow) -> Arrays:
    count = cases.TOKENS
    every: Arrays = {
        "token": cases.tokens(),
        "passage": np.zeros(count, np.int32),
        "left": np.arange(count, dtype=np.int32)[::-1].copy(),
    }
    return {name: every[name] for name in every if name in (*of.spec.frame, of.spec.left)}


def compare(of: S3Flow, kind: str, grid: int, sizes: Sequence[int], atol: float) -> None:
    """Samples of the tokens, so many in each work, and the rest, with the reference's."""
    want = wanted(kind, grid, "samples")
    subject = CodecSubject(lambda folder: None, lambda: frames(of), lambda: want)
    found = in_pieces(of, subject, sizes)[:: cases.STRIDE]
    assert want.std() > 0.02
    np.testing.assert_allclose(found, want, 0, atol)


every_kind = pytest.mark.parametrize("kind", cases.KINDS)
every_grid = pytest.mark.parametrize("grid", cases.GRIDS)


@every_kind
@every_grid
def test_mel_and_pitch_are_the_references(kind: str, grid: int) -> None:
    of = codec(kind, grid)
    state = of.open(SpeechRequest("r", "m", "", "text"))
    for _ in range(of.spec.solver_steps):
        of.launch([Work(state, of.spec.none(), final=True, segment=frames(of))])
    assert state.passage is not None
    mel = state.passage.mel
    assert mel.shape == (cases.MELS, 2 * cases.TOKENS)
    np.testing.assert_allclose(mel[:, :: cases.MEL_STRIDE], wanted(kind, grid, "mel"), 0, _ATOL)
    pitch = networks(kind, grid).hift.f0_predictor(mel[None])[0]
    np.testing.assert_allclose(pitch, wanted(kind, grid, "pitch"), 0, _ATOL)


@every_kind
@every_grid
def test_samples_are_the_references_in_any_pieces(kind: str, grid: int) -> None:
    for sizes in ((), (11, 9)):
        compare(codec(kind, grid), kind, grid, sizes, _CLOSE)


@every_kind
def test_they_are_however_they_are_computed(kind: str) -> None:
    compare(codec(kind, 25, memory=0), kind, 25, (11, 9), _CLOSE)
    compare(codec(kind, 25, double=False), kind, 25, (11, 9), 2e-3)


HIGHEST_HZ = {2: 8_000.0, 3: 12_000.0}


@pytest.fixture(scope="module", params=HIGHEST_HZ)
def hearing(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[int, FlowReferences]:
    """Of a version, read from published files."""
    version, folder = request.param, tmp_path_factory.mktemp("s3")
    write_hearing(folder)
    tokens = load_published_tokens(folder / f"speech_tokenizer_v{version}.onnx", "cpu")
    speaker = load_published_speaker(folder / "campplus.onnx", "cpu")
    return version, FlowReferences(tokens, speaker, HIGHEST_HZ[version])


@pytest.mark.parametrize("rate", RATES)
def test_a_recording_gives_the_same_tokens_mel_frames_and_speaker(
    hearing: tuple[int, FlowReferences], rate: int
) -> None:
    wanted, (version, references) = arrays("s3"), hearing
    found = references.hear(audio(RATES[rate], SEED, rate), rate)
    tokens = wanted[f"{rate}/token{version}"]
    count = len(found["token"])
    assert len(tokens) - count in (0, 1)  # a token begun has no two mel frames
    assert found["token"].tolist() == tokens[:count].tolist()
    assert len(found["mel"]) == 2 * count
    mel = np.exp(found["mel"][::STRIDE])
    # Of bands that hold nothing the logarithm shows what float32 rounds.
    theirs = np.exp(wanted[f"{rate}/mel{version}"][: len(mel)])
    np.testing.assert_allclose(mel, theirs, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(found["speaker"][0], wanted[f"{rate}/speaker"], atol=1e-4)
