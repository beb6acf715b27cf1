"""The short version of the matrix: one run of each of the three likeliest deaths."""

from pathlib import Path

import pytest

from tests.chaos.matrix import run_faults


@pytest.mark.slow
async def test_nothing_is_lost_repeated_or_different_when_a_process_dies(tmp_path: Path) -> None:
    lines: list[str] = []
    rows = await run_faults(
        ["kill talker", "kill vocoder", "kill broker"],
        streams=[4],
        runs=1,
        folder=tmp_path,
        report=lines.append,
        on_line=lambda name, line: lines.append(f"{name}: {line}"),
    )
    print("\n".join(lines))
    for row in rows:
        assert row.verdict.clean, (row.fault, row.verdict.notes)
        assert row.verdict.streams >= 4
