"""`antiphon up` on a GPU that is stubbed, whose compiler and driver refuse everything."""

import json
from pathlib import Path

import pytest

from antiphon.client import Audio, Finished, SpeechOptions, speak
from antiphon.say import whole
from antiphon.stack import LocalStack, StackConfig, local
from ttscommon.process.settings import PREFIX
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint

pytest.importorskip("triton")


@pytest.mark.slow
async def test_up_speaks_without_kernels_and_without_graphs_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(tmp_path / "tiny", "tiny", "custom_voice", small=True, seed=5, ending=5.0)
    monkeypatch.setattr(local, "_PAIR", "tests.stubbed_gpu")
    told = {"VOICE_DIR": str(tmp_path / "tiny"), "SLOTS": "1", "BATCH_STREAMS": "1"}
    stages = {
        "talker": {**told, "KV_BLOCKS": "200", "BATCH_POSITIONS": "32"},
        "vocoder": {**told, "BATCH_FRAMES": "4", "STEP_FRAMES": "4"},
    }
    environ = {
        stage: {f"{PREFIX}{name}": value for name, value in of.items()}
        for stage, of in stages.items()
    }
    config = StackConfig(
        port=0, store=tmp_path / "store", device="cuda", pair=True, environ=environ
    )
    lines = list[str]()
    async with LocalStack(config, lambda _, line: lines.append(line)) as stack:
        options = SpeechOptions(seed=1)
        events = [event async for event in speak(stack.url, whole("One step."), options)]
    assert isinstance(events[-1], Finished)
    assert events[-1].outcome == "ok"
    assert sum(len(event.pcm) for event in events if isinstance(event, Audio)) > 0
    said = [json.loads(line) for line in lines if line.startswith("{")]
    plain = [line for line in said if line["event"] == "kernels.plain"]
    refused = [line for line in said if line["event"] == "graphs.refused"]
    assert "ptxas died" in plain[0]["why"]
    assert "not permitted" in refused[0]["error"]
    assert {line["level"] for line in (*plain, *refused)} == {"warning"}
