"""The voice folder: written, read back, and refused when damaged."""

import json
from pathlib import Path

import pytest
import torch

from talker.models.cantor_net import CantorConfig, CantorNet
from ttscommon.voice import CONFIG_NAME, VoiceError, load_voice
from vocoder.codecs.cantor_net import CantorCodecConfig, CantorDecoder
from voicetrain.export import SAMPLING, export_voice
from voicetrain.speak import Singer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    net = CantorNet(CantorConfig(dim=32, layers=1, heads=2, hidden=16, depth_dim=16))
    decoder = CantorDecoder(CantorCodecConfig(decoder_dim=16, vocoder_dim=16))
    export_voice(net, decoder, tmp_path)
    return tmp_path


def test_an_exported_voice_loads_and_says_what_it_is(folder: Path) -> None:
    voice = load_voice(folder)
    assert (voice.family, voice.sample_rate, voice.frame_rate_hz) == ("cantor", 16_000, 25.0)
    assert [v.id for v in voice.voices] == ["slt", "rms", "awb"]
    assert voice.config["sampling"] == SAMPLING


def test_weights_survive_the_way_through_half_precision(folder: Path) -> None:
    singer = Singer.load(folder)
    assert singer.net.config.dim == 32
    assert singer.sound(torch.zeros(3, 4, dtype=torch.int64)).shape == (3 * 640,)


def test_a_changed_byte_in_the_weights_is_refused(folder: Path) -> None:
    weights = folder / "talker.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(VoiceError, match="damaged"):
        load_voice(folder)


def test_missing_weights_are_refused(folder: Path) -> None:
    (folder / "vocoder.safetensors").unlink()
    with pytest.raises(VoiceError, match="cannot be read"):
        load_voice(folder)


@pytest.mark.parametrize("content", ["{", "{}", '{"format": 99}'])
def test_a_bad_config_is_refused(folder: Path, content: str) -> None:
    (folder / CONFIG_NAME).write_text(content)
    with pytest.raises(VoiceError):
        load_voice(folder)


def test_weights_outside_the_folder_are_refused(folder: Path) -> None:
    config = json.loads((folder / CONFIG_NAME).read_text())
    config["weights"]["talker"]["file"] = "../talker.safetensors"
    (folder / CONFIG_NAME).write_text(json.dumps(config))
    with pytest.raises(VoiceError, match="outside"):
        load_voice(folder)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VoiceError, match="no voice folder"):
        load_voice(tmp_path / "none")
