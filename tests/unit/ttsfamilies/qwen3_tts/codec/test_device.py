"""A checkpoint's codec computes where its vocoder's settings say."""

from pathlib import Path

import pytest
import torch

from ttscommon.engine.inflight import DeviceError
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint
from vocoder.service import load_codec
from vocoder.settings import VocoderSettings


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_device_that_is_not_there_is_an_error_at_the_start(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "tiny", "custom_voice", seed=1)
    with pytest.raises(DeviceError, match="no CUDA device 1"):
        load_codec(VocoderSettings(model="tiny", voice_dir=tmp_path, device="cuda:1"))
