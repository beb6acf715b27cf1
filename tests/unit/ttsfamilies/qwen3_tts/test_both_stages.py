"""Both stages of Qwen3-TTS, started as on a GPU that is stubbed, say what they say on a CPU."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from talker import loading
from talker.settings import TalkerSettings
from talker.synthesis import synthesise
from tests.stubbed_gpu import StubbedGpu, WithoutGraphs, break_compiler, stub
from tests.turning import turn
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Array, Arrays
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint
from vocoder import service
from vocoder.engine.stream import DecodedAudio, Event, Finished
from vocoder.settings import VocoderSettings

pytest.importorskip("triton")

REQUEST = SpeechRequest(
    *("r", "m", "serena", "One step."), seed=1, sampling=Sampling(top_k=20, max_new_tokens=4)
)
# Few shapes: all of them are recorded, and the interpreter takes seconds for each.
FEW: dict[str, Any] = {"model": "m", "slots": 1, "batch_streams": 1}
STEPS_OFF = 2
"""Of int16; what the codec's specification allows."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    write_checkpoint(folder, "tiny", "custom_voice", small=True, seed=1, ending=0.0)
    return folder


def spoken(checkpoint: Path, device: str) -> tuple[Arrays, Array, float]:
    """A sentence's frames and sound, and how many launches took graphs."""
    where = {**FEW, "voice_dir": checkpoint, "device": device}
    talks, sounds = Metrics(), Metrics()
    talker = loading.build_engine(TalkerSettings(**where, kv_blocks=64, batch_positions=32), talks)
    vocoder = service.build_engine(VocoderSettings(**where, batch_frames=2, step_frames=2), sounds)
    (said,) = synthesise(talker, [REQUEST])
    assert said.error is None
    heard, ended = list[Array](), list[Finished]()

    def listen(events: Sequence[tuple[str, Event]]) -> None:
        heard.extend(event.pcm for _, event in events if isinstance(event, DecodedAudio))
        ended.extend(event for _, event in events if isinstance(event, Finished))

    vocoder.listen(listen)
    vocoder.open(REQUEST)
    vocoder.feed(REQUEST.request_id, said.arrays)
    vocoder.finish(REQUEST.request_id)
    while not ended:
        turn(vocoder)
    graphs = [_launched(talks, "talker"), _launched(sounds, "vocoder")]
    return said.arrays, np.concatenate(heard), min(graphs)


def _launched(metrics: Metrics, stage: str) -> float:
    labels = {"stage": stage, "path": "graph"}
    return metrics.registry.get_sample_value("tts_launches_total", labels) or 0.0


def same(found: tuple[Arrays, Array, float], wanted: tuple[Arrays, Array, float]) -> None:
    for name, array in wanted[0].items():
        np.testing.assert_array_equal(found[0][name], array, err_msg=name)
    assert len(found[1]) == len(wanted[1]) == len(wanted[0]["codes"]) * 1920 > 0
    assert np.abs(wanted[1]).max() > 100
    assert np.abs(found[1].astype(int) - wanted[1]).max() <= STEPS_OFF


@pytest.mark.slow
@pytest.mark.parametrize("gpu", [StubbedGpu, WithoutGraphs])
def test_where_no_kernel_compiles_twins_speak_and_the_log_says_why(
    gpu: type[StubbedGpu], checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = spoken(checkpoint, "cpu")
    stub(monkeypatch, gpu)
    break_compiler(monkeypatch)
    with capture_logs() as logs:
        found = spoken(checkpoint, "cuda")
    same(found, wanted)
    assert wanted[2] == 0
    assert (found[2] > 0) == (gpu is StubbedGpu)
    refused = any("not permitted" in line.get("error", "") for line in logs)
    assert refused == (gpu is WithoutGraphs)
    told = [line["why"] for line in logs if line["event"] == "kernels.plain"]
    assert told
    assert all("norm: " in why and "ptxas died" in why for why in told)
