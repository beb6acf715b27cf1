"""The comparison of shared prefixes with prompts that are computed each time."""

from __future__ import annotations

from pathlib import Path

from antiphon_bench.prefixes import compare
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint


def test_known_voices_save_positions(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "tiny", "base", small=True)
    apart, shared = compare(tmp_path, voices=2, requests=2, at_once=1)
    assert not apart.shared
    assert shared.shared
    assert apart.requests == shared.requests == 4
    assert apart.positions - shared.positions >= 2 * 16
    assert 0.0 < shared.first_p50_s <= shared.first_p95_s
