"""Step-Audio 2's flow beside its authors' code, chunk by chunk, in float64; and rows of sound."""

from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.parity import step_flow_cases as cases
from tests.parity.families.step_audio2 import FAMILY, goldens
from tests.parity.material import Floats, arrays
from tests.parity.step_audio2_cases import CASES, ROW_STRIDE
from tests.unit.ttsfamilies.codecs import loaded
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Due
from ttsfamilies.base.codec.options import CodecOptions
from ttsfamilies.cosyvoice.s3_flow.codec import S3Flow
from ttsfamilies.cosyvoice.s3_flow.synthetic import write_codec
from ttsfamilies.step_audio2.codec import load

pytestmark = pytest.mark.slow  # one more family

# Positions are float32 in one and float64 in the other.
_ATOL = 2e-5


@cache
def codec(memory: int) -> S3Flow:
    how = CodecOptions(memory_bytes=memory)
    made = loaded(partial(load, "m", how=how), write_codec, "step_audio2", seed=2)
    made._flow.double()
    return made


@torch.inference_mode()
def mels(of: S3Flow, name: str, *sizes: int) -> Floats:
    """All mel frames of an answer, whose tokens come in pieces."""
    state = of.open(SpeechRequest("r", "m", "", "text"))
    of.tell(state, cases.recording())
    said, at = cases.tokens(name), 0
    for size in (*sizes, len(said)):
        part = said[at : at + size]
        at += len(part)
        of._stretches.begin([(state, {"token": part}, Due(len(part), at == len(said)))])
        of._stretches.finish(state)
    assert state.passage is not None
    return state.passage.mel.numpy()


def wanted(name: str) -> Floats:
    return np.asarray(arrays(cases.NAME)[name])


@pytest.mark.parametrize("name", cases.LENGTHS)
def test_mel_frames_are_the_authors(name: str) -> None:
    found = mels(codec(1 << 30), name)
    assert found.shape == (cases.MELS, 2 * cases.LENGTHS[name])
    np.testing.assert_allclose(found[:: cases.MEL_STRIDE], wanted(name), 0, _ATOL)


@pytest.mark.parametrize("memory", [0, 1 << 30])
def test_they_are_however_tokens_come_and_whatever_is_kept(memory: int) -> None:
    # A token before the first chunk can look ahead, and with it.
    found = mels(codec(memory), "long", 1, 26, 1, 30, 7)
    np.testing.assert_allclose(found[:: cases.MEL_STRIDE], wanted("long"), 0, _ATOL)


def test_rows_of_sound_are_transformers(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "sound")
    FAMILY.write(tmp_path, case.checkpoint)
    (rows,) = FAMILY.derived(FAMILY.load(tmp_path), case).turns
    assert rows is not None
    found = rows["row"].reshape(-1)[:: ROW_STRIDE * 32]
    np.testing.assert_allclose(found, goldens()[case.name]["rows"], 0, 1e-5)
