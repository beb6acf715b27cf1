"""The short version of the matrix: one run of each of the three likeliest deaths."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.matrix import run_fault


@pytest.mark.parametrize("fault", ["kill talker", "kill vocoder", "kill broker"])
async def test_nothing_is_lost_repeated_or_different_when_a_process_dies(
    fault: str, tmp_path: Path
) -> None:
    lines: list[str] = []
    rows = await run_fault(
        fault,
        streams=[4],
        runs=1,
        folder=tmp_path,
        on_line=lambda name, line: lines.append(f"{name}: {line}"),
    )
    print("\n".join(lines))
    verdict = rows[0].verdict
    assert verdict.clean, verdict.notes
    assert verdict.streams >= 4
