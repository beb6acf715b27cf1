"""Kernels are compiled in front of the first start, with a line that says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from antiphon.starting import compile_missing
from ttscommon.engine.kernels import ahead, kept


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, check: commands.append(command))
    return commands


def test_a_first_start_says_that_it_compiles(
    ran: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    console = Console(record=True, width=80)
    compile_missing("torch", console)
    assert ran == [[sys.executable, "-m", "ttscommon.engine.kernels.ahead"]]
    assert "compiling kernels for this machine, once" in console.export_text()


def test_a_later_start_compiles_nothing_and_says_nothing(
    ran: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    kept.complete(kept.sources()).touch()
    console = Console(record=True)
    compile_missing("torch", console)
    assert (ran, console.export_text()) == ([], "")


def test_engines_without_kernels_wait_for_none(
    ran: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    compile_missing("fake", Console(record=True))
    assert ran == []
    assert not ahead.compiled()
