"""From the vocoder's settings to a codec that is ready."""

from pathlib import Path

import pytest

from tests.late import Late
from tests.unit.vocoder.test_codecs import voice_folder
from ttscommon.engine.device import device as devices
from ttsfamilies.base.codec.silences import Silences
from ttsfamilies.base.codec.stateful import StatefulCodec
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint
from vocoder.service import load_codec
from vocoder.settings import VocoderSettings


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
