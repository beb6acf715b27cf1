"""Codecs found and loaded by what a voice folder says of itself, and by settings."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.late import Late
from tests.unit.vocoder.tiny_vesper import SMALL
from ttscommon.engine.device import device as devices
from ttscommon.engine.voice import sha256_of
from ttscommon.wire.errors import VoiceError
from ttscommon.wire.fields import Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import CodecSpec, Work
from ttsfamilies.base.codec.silences import Silences
from ttsfamilies.base.codec.stateful import StatefulCodec
from ttsfamilies.codecs import load
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint
from ttsfamilies.vesper.codec.net import VesperDecoder
from vocoder.service import load_codec
from vocoder.settings import VocoderSettings

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


@pytest.mark.parametrize(("lag", "owed"), [(352, [0, 848, 2048]), (3300, [0, 0, 0, 300, 1500])])
def test_what_is_held_back_is_owed_until_the_final_frame(lag: int, owed: list[int]) -> None:
    spec = CodecSpec("m", "f", 24_000, 1200, CODES, lag_samples=lag)
    assert [spec.samples(n, final=False) for n in range(len(owed))] == owed
    assert spec.samples(2, final=True) == 2400


@pytest.mark.parametrize("bad", [{"sample_rate": 0}, {"frame": {}}, {"lag_samples": -1}])
def test_a_spec_that_makes_no_sense_is_refused(bad: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"sample_rate": 16_000, "samples_per_frame": 640, "frame": CODES}
    with pytest.raises(ValueError):
        CodecSpec("m", "f", **(fields | bad))


@pytest.mark.parametrize("kind", ["a voice folder", "a checkpoint"])
def test_a_codec_on_a_device_has_recorded_its_steps_before_any_request(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "a checkpoint":
        write_checkpoint(tmp_path, "tiny", "custom_voice", seed=1)
    else:
        voice_folder(tmp_path)
    monkeypatch.setattr(devices, "device_of", lambda _, **__: Late())
    loaded = load_codec(
        VocoderSettings(
            model="tiny", voice_dir=tmp_path, device="cuda", batch_streams=2, batch_frames=4,
            step_frames=2,
        )
    )  # fmt: skip
    codec = loaded._codec if isinstance(loaded, Silences) else loaded
    assert isinstance(codec, StatefulCodec)
    assert loaded.depth == codec.depth == 1
    assert loaded.measured_step_s == codec.measured_step_s
    expected = codec.on_device.shapes.expected()
    assert expected
    assert all(codec.on_device.launches.knows(shape) for shape in expected)
    assert codec.measured_step_s


def test_voices_that_say_no_gain_have_that_of_the_settings(tmp_path: Path) -> None:
    voice_folder(tmp_path)
    settings = VocoderSettings(model="tiny", voice_dir=tmp_path, gain_db=4.8)
    assert load_codec(settings).spec.gain_db == 4.8
