"""The codecs whose samples are held against a reference."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tests.parity import (
    csm_cases,
    higgs_audio_cases,
    kyutai_cases,
    orpheus_cases,
    pocket_cases,
    tacotron2_cases,
    voxcpm_cases,
    zonos_cases,
)
from tests.parity import qwen3_omni_cases as omni_cases
from tests.parity.families import FAMILIES
from tests.parity.families.piper import CASES as PIPER_CASES
from tests.parity.families.piper import codec as piper
from tests.parity.families.piper import referred
from tests.parity.material import Floats, arrays, frames
from ttscommon.engine.delay_pattern import DelayPattern
from ttscommon.wire.fields import Array, Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec
from ttsfamilies.base.codec.windowed import Noise
from ttsfamilies.codecs import load
from ttsfamilies.higgs_audio.synthetic import write_codec as write_higgs
from ttsfamilies.orpheus.codec import Snac, load_decoder
from ttsfamilies.orpheus.synthetic_snac import write_codec as write_snac
from ttsfamilies.zonos.synthetic_dac import write_codec as write_dac


def _loaded(folder: Path) -> Codec:
    return load("m", folder)


class CodecSubject(NamedTuple):
    """A codec and its golden.

    write: a synthetic one into a folder. material: what is decoded. wanted: the reference's
    samples, every `stride`-th. atol: of samples in -1..1. load: with the goldens' noise in place
    of our own. environment: see Subject; empty where the reference of its talker writes the golden.
    """

    write: Callable[[Path], object]
    material: Callable[[], Arrays]
    wanted: Callable[[], Floats]
    stride: int = 1
    atol: float = 1e-4
    load: Callable[[Path], Codec] = _loaded
    environment: str = ""
    voice: str = ""

    @property
    def request(self) -> SpeechRequest:
        return SpeechRequest("r", "m", self.voice, "text", seed=1)


def _golden(name: str, field: str = "samples") -> Callable[[], Floats]:
    return lambda: np.asarray(arrays(name)[field], np.float32)


class _GoldenSnac(Snac):
    """With the goldens' noise at absolute steps."""

    def noise(self, seed: int) -> Noise:
        def golden(block: int, first: int, steps: int, device: torch.device) -> Tensor:
            return torch.from_numpy(orpheus_cases.noise(block, first + steps)[first:]).to(device)

        return golden


def _higgs_rows() -> Array:
    codes = higgs_audio_cases.codes(higgs_audio_cases.FRAMES, 2)
    begin, end = higgs_audio_cases.IDS - 2, higgs_audio_cases.IDS - 1
    return DelayPattern.even(higgs_audio_cases.CODEBOOKS).rows(codes, begin, end)


def _latents() -> Arrays:
    values, of = pocket_cases.latents()
    return {"latent": values, "passage": of}


def _written(family: str, checkpoint: str) -> Callable[[Path], object]:
    """As a part of a talker's checkpoint."""
    return lambda folder: FAMILIES[family].write(folder, checkpoint)


def _of(family: str, case: Any, *names: str) -> Arrays:
    """The reference's own frames."""
    found = FAMILIES[family].wanted(case)
    return {name: found[name] for name in names}


def _code2wav() -> Floats:
    """The reference never makes the last samples, which are silence here."""
    golden, whole = arrays("code2wav"), np.zeros(24 * 1920, np.float32)[::3]
    assert int(golden["count"]) == 24 * 1920 - 555
    whole[: len(golden["samples"])] = golden["samples"]
    return whole


CODECS: Final[Mapping[str, CodecSubject]] = {
    "qwen3_tts": CodecSubject(
        _written("qwen3_tts", "custom"),
        lambda: {"codes": frames(24, 9).astype(np.int16)},
        _golden("codec", "once"),
        stride=3,
    ),
    "qwen3_omni": CodecSubject(
        _written("qwen3_omni", "omni"),
        lambda: {"codes": omni_cases.codes()},
        _code2wav,
        stride=3,
    ),
    "snac": CodecSubject(
        lambda folder: write_snac(folder, seed=orpheus_cases.CODEC_SEED),
        lambda: {"codes": orpheus_cases.codes()},
        _golden("snac"),
        load=lambda folder: _GoldenSnac("m", load_decoder(folder)),
        environment="official",
    ),
    "mimi": CodecSubject(
        _written("csm", "csm"), lambda: {"codes": csm_cases.codes()}, _golden("mimi"), atol=1e-5
    ),
    "mimi in Kyutai's files": CodecSubject(
        _written("kyutai_tts", "kyutai-published"),
        lambda: {"codes": kyutai_cases.codes()},
        _golden("kyutai_mimi"),
        stride=4,
        atol=1e-5,
    ),
    # The latents are the reference's own; the voice is where it was installed.
    "piper": CodecSubject(
        lambda folder: None,
        lambda: _of("piper", PIPER_CASES[0], *piper().spec.frame),
        lambda: referred(PIPER_CASES[0])[0].sound,
        load=lambda folder: piper(),
        voice="joe",
    ),
    "pocket_tts": CodecSubject(
        _written("pocket_tts", "pocket"),
        _latents,
        _golden("pocket_tts", "pocket/samples"),
        atol=2e-5,
    ),
    "higgs_audio": CodecSubject(
        lambda folder: write_higgs(folder, seed=higgs_audio_cases.SEED),
        lambda: {"codes": _higgs_rows()},
        _golden("higgs_audio"),
        stride=7,
    ),
    "dac": CodecSubject(
        lambda folder: write_dac(folder, seed=zonos_cases.CODEC_SEED),
        lambda: {"codes": DelayPattern.even(9).rows(zonos_cases.codes(), 1025, 1025)},
        _golden("zonos"),
        stride=3,
    ),
    "tacotron2": CodecSubject(
        _written("tacotron2", "tacotron2"),
        lambda: _of("tacotron2", tacotron2_cases.HEARD, "mel", "begins"),
        _golden("tacotron2"),
        stride=tacotron2_cases.STRIDE,
        atol=1e-5,
    ),
    "voxcpm2": CodecSubject(
        _written("voxcpm2", "voxcpm"),
        lambda: {"patch": voxcpm_cases.patches()},
        _golden("voxcpm2"),
        stride=voxcpm_cases.STRIDE,
        atol=2e-5,
    ),
}
