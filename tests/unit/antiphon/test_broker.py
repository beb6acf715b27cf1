"""The embedded broker's command."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.stack.broker import BrokerProgram, Credentials


@pytest.mark.parametrize(
    ("processors", "own", "threads"),
    [(None, "", "1"), (2, "", "1"), (16, "", "4"), (16, "7", "7")],
)
def test_a_broker_beside_engines_takes_few_threads_unless_told_how_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processors: int | None, own: str, threads: str
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    monkeypatch.delenv("GOMAXPROCS", raising=False)
    if own:
        monkeypatch.setenv("GOMAXPROCS", own)
    command = BrokerProgram("broker", tmp_path, Credentials()).command({})
    assert command.environ == {"GOMAXPROCS": threads}
