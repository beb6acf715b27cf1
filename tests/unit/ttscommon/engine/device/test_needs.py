"""What a machine lacks is said before anything fails for it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from antiphon_bench.gpu import cli
from ttscommon.engine.device import needs


def lacks(tmp_path: Path, **there: bool) -> list[str]:
    if there.get("headers"):
        (tmp_path / "Python.h").touch()

    def which(name: str) -> str | None:
        return f"/usr/bin/{name}" if there.get("compiler") else None

    return needs.problems(which, tmp_path, lambda: int(there.get("gpu", False)))


def test_a_compiler_headers_and_a_gpu_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    text = "\n".join(lacks(tmp_path))
    assert "no C compiler" in text
    assert "no Python.h (Debian: python3-dev)" in text
    assert "torch sees no GPU" in text


def test_nothing_is_said_where_all_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needs, "find_spec", lambda name: object())
    assert lacks(tmp_path, compiler=True, headers=True, gpu=True) == []


def test_a_subcommand_ends_in_words_and_not_in_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cli, "problems", lambda: ["There is no C compiler."])
    for name in ("step", "profile", "open", "all"):
        told = CliRunner().invoke(cli.app, [name, "--device", "cuda"])
        assert told.exit_code == 1
        assert "There is no C compiler." in told.output
