"""Codecs found and loaded by what a voice folder says of itself."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.unit.vocoder.tiny_vesper import SMALL
from ttscommon.engine.voice import sha256_of
from ttscommon.wire.errors import VoiceError
from ttscommon.wire.fields import Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import CodecSpec, Work
from ttsfamilies.codecs import load
from ttsfamilies.vesper.codec.net import VesperDecoder

CODES = {"codes": Field((4,), "i2", 512)}


def voice_folder(path: Path, **changes: Any) -> Path:
    """A voice of small random networks, complete and with the right hashes."""
    torch.manual_seed(0)
    decoder = VesperDecoder(SMALL)
    save_file(decoder.state_dict(), path / "vocoder.safetensors")
    save_file({"nothing": torch.zeros(1)}, path / "talker.safetensors")
    weights = {
        part: {"file": name, "sha256": sha256_of(path / name)}
        for part, name in (("talker", "talker.safetensors"), ("vocoder", "vocoder.safetensors"))
    }
    config = {
        "format": 1,
        "name": "small",
        "family": "vesper",
        "sample_rate": 24_000,
        "frame_rate_hz": 20.0,
        "codebooks": 4,
        "voices": [{"id": "slt", "name": "SLT", "language": "en"}],
        "presets": {"slt": {"pace": 1.0, "level": 0.0, "span": 1.0}},
        "codec": dataclasses.asdict(SMALL),
        "weights": weights,
    }
    (path / "config.json").write_text(json.dumps(config | changes))
    return path


def test_a_voice_folder_becomes_a_codec(tmp_path: Path) -> None:
    codec = load("served-name", voice_folder(tmp_path))
    assert (codec.spec.name, codec.spec.family, codec.spec.frame_rate_hz) == (
        "served-name",
        "vesper",
        20.0,
    )
    assert [voice.id for voice in codec.spec.voices] == ["slt"]
    state = codec.open(SpeechRequest("r", "m", "slt", "text", seed=1))
    (samples,) = codec.decode([Work(state, {"codes": np.ones((3, 4), np.int16)}, final=True)])
    assert len(samples) == codec.spec.samples(3, final=True) == 3 * 1200


def test_an_unknown_family_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VoiceError, match=r"family 'nothing'.*known: vesper, Qwen3"):
        load("m", voice_folder(tmp_path, family="nothing"))


@pytest.mark.parametrize(
    "changes",
    [
        {"codec": dataclasses.asdict(dataclasses.replace(SMALL, dim=24))},
        {"sample_rate": 16_000},
        {"voices": [{"id": "slt", "name": "SLT", "language": "en_US"}]},
    ],
)
def test_weights_that_do_not_fit_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(VoiceError):
        load("m", voice_folder(tmp_path, **changes))


def test_the_tail_is_owed_until_the_final_frame() -> None:
    spec = CodecSpec("m", "f", 16_000, 640, CODES, lag_samples=352)
    assert spec.samples(0, final=False) == 0
    assert spec.samples(2, final=False) == 2 * 640 - 352
    assert spec.samples(2, final=True) == 2 * 640


def test_a_lookahead_of_frames_is_owed_too() -> None:
    spec = CodecSpec("m", "f", 24_000, 1200, CODES, lag_samples=3300)
    assert [spec.samples(n, final=False) for n in range(5)] == [0, 0, 0, 300, 1500]
    assert spec.samples(2, final=True) == 2400


@pytest.mark.parametrize("bad", [{"sample_rate": 0}, {"frame": {}}, {"lag_samples": -1}])
def test_a_spec_that_makes_no_sense_is_refused(bad: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"sample_rate": 16_000, "samples_per_frame": 640, "frame": CODES}
    with pytest.raises(ValueError):
        CodecSpec("m", "f", **(fields | bad))
