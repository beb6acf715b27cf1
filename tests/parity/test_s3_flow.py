"""The flow of S3 tokens and HiFT beside their authors' code, in float64.

CosyVoice 2 and 3 with their streaming mask and without, Chatterbox as published, which has none,
and with the mask of CosyVoice 2; each in one shot and cut as a vocoder cuts it. Recordings are
heard as by the packages that CosyVoice and Chatterbox hear them with.
"""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.parity import s3_cases as cases
from tests.parity.cosyvoice_cases import RATES, SEED, STRIDE
from tests.parity.families.cosyvoice import write_hearing
from tests.parity.material import Floats, arrays, audio
from ttscommon.wire.fields import Array, cut
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Work
from ttsfamilies.base.codec.options import CodecOptions
from ttsfamilies.base.s3.references import FlowReferences
from ttsfamilies.base.s3.weights import load_published_speaker, load_published_tokens
from ttsfamilies.cosyvoice.s3_flow.codec import S3Flow
from ttsfamilies.cosyvoice.s3_flow.flow import Networks, load_networks
from ttsfamilies.cosyvoice.s3_flow.sound import Draws, fixed
from ttsfamilies.cosyvoice.s3_flow.stretches import S3Stream
from ttsfamilies.cosyvoice.s3_flow.synthetic import write_codec

pytestmark = pytest.mark.slow  # one more family

_ATOL = 1e-4
# Of samples: weights of convolutions are joined in float32.
_CLOSE = 5e-5


class Golden(S3Flow):
    """With the goldens' noise."""

    def open(self, request: SpeechRequest, frame: int = 0) -> S3Stream:
        stream = super().open(request, frame)
        stream.draws = golden_draws(own=self.spec.family.startswith("chatterbox"))
        return stream


def golden_draws(*, own: bool) -> Draws:
    """CosyVoice's flow begins with the table that its authors draw."""
    noise, begins = cases.source_noise(), cases.beginnings()
    even = cases.even_noise()
    phases = cases.phases()

    def frames(first: int, count: int, device: torch.device) -> Tensor:
        return torch.from_numpy(begins[:, first : first + count]).to(device)

    def normal(block: int, first: int, count: int, device: torch.device) -> Tensor:
        return torch.from_numpy(noise[block, first : first + count]).to(device)

    def uniform(block: int, first: int, count: int, device: torch.device) -> Tensor:
        if block < cases.HARMONICS:
            return torch.from_numpy(even[block, first : first + count]).to(device)
        return torch.from_numpy(phases[block - 100 : block - 99]).to(device)

    return Draws(frames if own else fixed(0, cases.MELS).frames, normal, uniform)


@cache
def networks(kind: str, grid: int, *, double: bool = True) -> Networks:
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        write_codec(Path(folder), kind, seed=2)
        nets = load_networks(Path(folder), chunk=grid)
    if double:
        nets.flow.double()
        nets.hift.double()
    return nets


def wanted(kind: str, grid: int, what: str) -> Floats:
    return np.asarray(arrays("s3_flow")[f"{kind}/{grid}/{what}"])


def codec(kind: str, grid: int, memory: int = 1 << 30, *, double: bool = True) -> Golden:
    how = CodecOptions(memory_bytes=memory)
    return Golden("m", kind, networks(kind, grid, double=double), how)


def frames(of: S3Flow) -> dict[str, Array]:
    count = cases.TOKENS
    every: dict[str, Array] = {
        "token": cases.tokens(),
        "passage": np.zeros(count, np.int32),
        "left": np.arange(count, dtype=np.int32)[::-1].copy(),
    }
    return {name: every[name] for name in every if name in (*of.spec.frame, of.spec.left)}


def spoken(of: S3Flow, *sizes: int) -> Floats:
    """Samples of the tokens, so many in each work, and the rest."""
    state = of.open(SpeechRequest("r", "m", "", "text"))
    of.tell(state, cases.recording())
    parts, at = [], 0
    for size in (*sizes, cases.TOKENS):
        stop = min(at + size, cases.TOKENS)
        if stop > at:
            work = Work(state, cut(frames(of), at, stop), final=stop == cases.TOKENS)
            parts += of.decode([work])
        at = stop
    return np.concatenate(parts)


every_kind = pytest.mark.parametrize("kind", cases.KINDS)
every_grid = pytest.mark.parametrize("grid", cases.GRIDS)


@every_kind
@every_grid
def test_mel_and_pitch_are_the_references(kind: str, grid: int) -> None:
    of = codec(kind, grid)
    state = of.open(SpeechRequest("r", "m", "", "text"))
    of.tell(state, cases.recording())
    whole = {name: array[:] for name, array in frames(of).items()}
    for _ in range(of.spec.solver_steps):
        of.launch([Work(state, of.spec.none(), final=True, segment=whole)])
    assert state.passage is not None
    mel = state.passage.mel
    assert mel.shape == (cases.MELS, 2 * cases.TOKENS)
    np.testing.assert_allclose(mel[:, :: cases.MEL_STRIDE], wanted(kind, grid, "mel"), 0, _ATOL)
    pitch = networks(kind, grid).hift.f0_predictor(mel[None])[0]
    np.testing.assert_allclose(pitch, wanted(kind, grid, "pitch"), 0, _ATOL)


@every_kind
@every_grid
def test_samples_are_the_references_in_any_pieces(kind: str, grid: int) -> None:
    of, want = codec(kind, grid), wanted(kind, grid, "samples")
    assert want.std() > 0.02
    for sizes in ((), (11, 9)):
        np.testing.assert_allclose(spoken(of, *sizes)[:: cases.STRIDE], want, 0, _CLOSE)


@every_kind
@pytest.mark.parametrize(
    ("memory", "double", "atol"),
    [
        pytest.param(0, True, _CLOSE, id="every stretch computed again"),
        pytest.param(1 << 30, False, 2e-3, id="float32"),
    ],
)
def test_they_are_however_they_are_computed(
    kind: str, memory: int, double: bool, atol: float
) -> None:
    found = spoken(codec(kind, 25, memory, double=double), 11, 9)
    np.testing.assert_allclose(found[:: cases.STRIDE], wanted(kind, 25, "samples"), 0, atol)


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
