"""Where a loaded family computes."""

from pathlib import Path

import pytest

from ttscommon.engine.device import device
from ttscommon.engine.inflight import DeviceError
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint
from ttsfamilies.talkers import load


def test_a_talkers_work_goes_first_where_a_vocoder_shares_its_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(index: int, priority: int) -> None:
        raise DeviceError(f"{index} {priority}")

    write_checkpoint(tmp_path, "tiny", "custom_voice", seed=1)
    monkeypatch.setattr(device, "Cuda", refused)
    with pytest.raises(DeviceError, match="1 -1"):
        load("m", tmp_path, device="cuda:1")
