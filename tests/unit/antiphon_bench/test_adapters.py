"""The comparison of batches with and without adapters."""

from __future__ import annotations

from pathlib import Path

from antiphon_bench.adapters import COUNTS, compare
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint


def test_every_number_of_adapters_is_measured_beside_none(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "tiny", "custom_voice", small=True)
    found = list(compare(tmp_path, streams=2, frames=2, rank=2, rounds=1))
    assert [one.adapters for one in found] == [None, *COUNTS]
    assert all(one.frames_per_s > 0.0 and one.streams == 2 for one in found)
