"""Qwen3-TTS from text to sound through the device path, kernels in Triton's interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from talker import loading
from talker.settings import TalkerSettings
from talker.synthesis import synthesise
from tests.late import Late
from ttscommon.engine.device import device as devices
from ttscommon.engine.kernels import choice
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttsfamilies.base.codec.base import Work
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint
from vocoder.service import load_codec
from vocoder.settings import VocoderSettings

pytest.importorskip("triton")

Samples = npt.NDArray[np.float32]
FRAMES = 2


def started(folder: Path, device: str) -> tuple[Arrays, Samples]:
    """What both stages make of one request, each started as its service starts it."""
    engine = loading.build_engine(
        TalkerSettings(
            model="m", voice_dir=folder, device=device, slots=1, batch_streams=1,
            batch_positions=16, kv_blocks=64,
        ),
        Metrics(),
    )  # fmt: skip
    voice, sampling = engine.spec.voices[0].id, Sampling(top_k=20, max_new_tokens=FRAMES + 1)
    request = SpeechRequest("r", "m", voice, "One.", seed=1, sampling=sampling)
    (spoken,) = synthesise(engine, [request])
    assert spoken.error is None
    codec = load_codec(
        VocoderSettings(
            model="m", voice_dir=folder, device=device, slots=1, batch_streams=1, batch_frames=2,
            step_frames=FRAMES,
        )
    )  # fmt: skip
    frames = {"codes": spoken.arrays["codes"]}
    (samples,) = codec.decode([Work(codec.open(request), frames, final=True)])
    return spoken.arrays, samples


@pytest.mark.slow
def test_both_stages_start_and_say_by_kernels_what_the_cpu_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_WARM_UP_STREAMS", (1,))
    monkeypatch.setattr(loading, "_WARM_UP_FRAMES", 1)
    write_checkpoint(tmp_path, "tiny", "custom_voice", seed=1, small=True)
    codes, samples = started(tmp_path, "cpu")
    monkeypatch.setattr(devices, "device_of", lambda *_, **__: Late())
    monkeypatch.setattr(choice, "_version", "triton")
    on_device = started(tmp_path, "cuda")
    np.testing.assert_array_equal(on_device[0]["codes"], codes["codes"])
    assert len(codes["codes"]) == FRAMES
    np.testing.assert_allclose(on_device[1], samples, atol=2 / 32768)
    assert np.abs(samples).max() > 100 / 32768
