"""docs/measuring.md names every measuring program and no other, with options that they have."""

import argparse
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import typer.main
from typer.testing import CliRunner

from antiphon_bench.cli import app
from tests.chaos import __main__ as chaos

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = ("docs/measuring.md", "docs/performance.md")
BENCH: Final = typer.main.get_command(app).commands  # type: ignore[attr-defined]
NAMED: Final = re.compile(r"(antiphon bench|python -m tests\.chaos) ([a-z][\w-]*)")
MODULE: Final = re.compile(r"python -m ((?:tests|voicetrain)\.[a-z_.]+)")
# Not measurements.
OTHERS: Final = {"antiphon bench checkpoint", "antiphon bench report"}
PASSED_ON: Final = {"peers": "tests.parity.side_by_side", "gpu": "antiphon_bench.gpu"}


class Parser(Exception):
    """A program's, caught before it read its arguments."""


def options_of_chaos(name: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The long options of one program."""

    def caught(self: argparse.ArgumentParser, *_: object) -> None:
        raise Parser({option for a in self._actions for option in a.option_strings})

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", caught)
    with pytest.raises(Parser) as found:
        importlib.import_module(f"tests.chaos.{name}").main()
    return set(found.value.args[0])


def there() -> set[str]:
    """Every measuring command."""
    bench = {f"antiphon bench {name}" for name in BENCH}
    return bench - OTHERS | {f"python -m tests.chaos {name}" for name in chaos.PROGRAMS}


def lines_of(command: str) -> list[str]:
    """Lines of the pages that show the command."""
    shown = [line for page in PAGES for line in (ROOT / page).read_text("utf-8").splitlines()]
    return [found for line in shown for found in re.findall(rf"{command}\b([^`|#]*)", line)]


def test_the_page_lists_every_program_and_no_other() -> None:
    page = (ROOT / "docs/measuring.md").read_text("utf-8")
    rows = re.findall(r"^\| `([^`]+)` \|", page.split("## Programs")[1].split("## ")[0], re.M)
    ours = [row for row in rows if not MODULE.fullmatch(row)]
    assert sorted(ours) == sorted(there())


@pytest.mark.parametrize("page", PAGES)
def test_every_module_in_a_page_is_there(page: str) -> None:
    named = set(MODULE.findall((ROOT / page).read_text("utf-8")))
    assert [name for name in named if importlib.util.find_spec(name) is None] == []


def test_the_page_lists_every_benchmark() -> None:
    page = (ROOT / "docs/measuring.md").read_text("utf-8")
    files = (ROOT / "tests/benchmarks").glob("[a-z]*.py")
    names = {file.stem for file in files if not file.stem.startswith("test_")}
    assert {name.removeprefix("tests.benchmarks.") for name in MODULE.findall(page)} >= names


@pytest.mark.parametrize("page", PAGES)
def test_every_command_in_a_page_is_there(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    named = {f"{program} {name}" for program, name in NAMED.findall(text)}
    assert named - OTHERS - {"python -m tests.chaos NAME"} <= there()


@pytest.mark.parametrize("name", chaos.PROGRAMS)
def test_the_pages_show_options_that_a_chaos_program_has(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = rf"tests\.chaos {name}"
    shown = {o for line in lines_of(command) for o in re.findall(r"--[a-z][\w-]*", line)}
    assert shown <= options_of_chaos(name, monkeypatch)
    assert chaos.summary(name)


@pytest.mark.parametrize("name", sorted(BENCH.keys() - PASSED_ON.keys()))
def test_the_pages_show_options_that_a_bench_command_has(name: str) -> None:
    shown = {
        option
        for line in lines_of(f"antiphon bench {name}")
        for option in re.findall(r"--[a-z][\w-]*", line)
    }
    assert shown <= {option for found in BENCH[name].params for option in found.opts}


def test_help_lists_the_programs_of_chaos(capsys: pytest.CaptureFixture[str]) -> None:
    assert chaos.main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"  {name}" in said for name in chaos.PROGRAMS)
    assert chaos.main(["latin"]) == 2


def test_options_alone_are_those_of_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr("tests.chaos.matrix.main", lambda: seen.append(sys.argv[1:]))
    chaos.main(["--fault", "kill talker"])
    chaos.main(["matrix", "--runs", "1"])
    assert seen == [["--fault", "kill talker"], ["--runs", "1"]]


@pytest.mark.parametrize(("name", "module"), PASSED_ON.items())
def test_a_program_runs_as_a_module_with_the_rest_of_the_line(
    name: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def run(command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(subprocess, "run", run)
    result = CliRunner().invoke(app, [name, "--help", "x"])
    assert result.exit_code == 3
    assert ran == [[sys.executable, "-m", module, "--help", "x"]]


def test_a_program_of_the_repository_says_that_it_needs_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["peers"])
    assert result.exit_code == 2
    assert "checkout" in result.output
