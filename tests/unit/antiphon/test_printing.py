"""Lists are read by people at 80 columns and in pipes, and by programs; examples can be typed."""

import json
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from antiphon import client, printing
from antiphon.app import app
from antiphon.examples import EXAMPLES
from ttsfamilies.known import FAMILIES

# A pipe: rich asks COLUMNS, and takes 80 without it.
PIPE = {"COLUMNS": "", "TERM": "dumb"}


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), env=PIPE)
    assert result.exit_code == 0, result.output
    return result.output


def printed(heads: printing.Row, rows: list[printing.Row], width: int) -> list[str]:
    console = Console(width=width, record=True)
    printing.show(heads, rows, console)
    return console.export_text().splitlines()


def test_rows_that_fit_are_a_table() -> None:
    lines = printed(("voice", "name"), [("vesper", "Vesper"), ("low", "Vesper Low")], 80)
    assert [line.split("  ")[0] for line in lines] == ["voice", "vesper", "low"]


def test_rows_that_do_not_fit_are_paragraphs_whose_words_are_whole() -> None:
    accepts = ", ".join(f"parameter_{number}" for number in range(20))
    lines = printed(
        ("family", "accepts", "licence"), [("one", accepts, ""), ("two", "x", "MIT")], 80
    )
    assert lines[0] == "one"
    assert lines[-3:] == ["two", "  accepts   x", "  licence   MIT"]
    assert max(map(len, lines)) <= 80
    words = [word for line in lines[1:-4] for word in line.split()]
    assert words == ["accepts", *accepts.split()]


def test_every_known_family_can_be_read_at_80_columns_in_a_pipe() -> None:
    lines = run("models", "--known").splitlines()
    assert max(map(len, lines)) <= 80
    assert all(line == line.rstrip() for line in lines)
    assert [line for line in lines if line and line[0] != " "] == [one.title for one in FAMILIES]


def test_known_families_are_told_to_programs() -> None:
    told = json.loads(run("models", "--known", "--json"))
    assert [one["family"] for one in told] == [family.name for family in FAMILIES]
    assert all(isinstance(one["accepts"], list) for one in told)


def test_voices_and_models_are_told_to_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def voices(*_: Any, **__: Any) -> list[client.Voice]:
        return [client.Voice("vesper", "Vesper", "en-US", ("en-US",), "female")]

    async def models(*_: Any) -> list[client.ServedModel]:
        return [client.ServedModel("vesper", "vesper", 24_000, ("speed",))]

    monkeypatch.setattr(client, "voices", voices)
    monkeypatch.setattr(client, "models", models)
    (voice,) = json.loads(run("voices", "--json"))
    assert (voice["id"], voice["languages"]) == ("vesper", ["en-US"])
    (model,) = json.loads(run("models", "--json"))
    assert (model["id"], model["accepts"]) == ("vesper", ["speed"])


def test_keys_are_told_without_their_hashes(tmp_path: Path) -> None:
    file = str(tmp_path / "keys.toml")
    run("keys", "make", "reader", "--file", file, "--streams", "4", "--expires", "2030-01-01")
    (told,) = json.loads(run("keys", "list", "--file", file, "--json"))
    assert (told["name"], told["streams"]) == ("reader", 4)
    assert told["expires"].startswith("2030-01-01")
    assert "sha256" not in json.dumps(told)


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Typer's own commands by what is typed; their base class is not exported."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} ")
        else:
            yield f"{before}{name}", command


@cache
def known() -> dict[str, Any]:
    """Every command."""
    return dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("name", ["read", "up", "convert", "detect", "plan"])
def test_help_is_wrapped_once(name: str) -> None:
    """A line that ends early ends its paragraph, or the next word would not have fitted."""
    text = run(name, "--help").partition("╭")[0]
    lines = [line.strip() for line in text.splitlines()]
    for line, after in pairwise(lines):
        assert not after or not line or len(line) + 1 + len(after.split()[0]) > 78, (line, after)


@pytest.mark.parametrize(
    "name", ["say", "read", "up", "plan", "keys make", "bench run", "bench sweep"]
)
def test_help_cuts_no_word_at_80_columns(name: str) -> None:
    assert "…" not in run(*name.split(), "--help")


def test_nothing_to_list_is_said() -> None:
    assert printed(("voice", "name"), [], 80) == ["none"]


def test_what_is_missing_is_installed_as_this_was(tmp_path: Path) -> None:
    assert printing.needs_bench(tmp_path) == "needs `pip install 'antiphon[bench]'`"
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "pyproject.toml").touch()
    assert printing.needs_bench(tmp_path) == f"needs `make -C {tmp_path} .venv/.developing`"


def test_every_command_has_examples_in_its_help() -> None:
    found = known().keys() - {"bench"}  # a program of another package
    assert found == set(EXAMPLES)
    for name in found:
        assert EXAMPLES[name][0][:60] in run(*name.split(), "--help")


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_an_example_is_one_that_the_command_takes(line: str) -> None:
    assert len(line) <= 78  # help indents it
    words = next(part for part in _pipeline(line) if "antiphon" in part)
    given = words[words.index("antiphon") + 1 :]
    name = given.pop(0)
    command = known().get(name) or known()[f"{name} {given.pop(0)}"]
    command.make_parser(command.context_class(command)).parse_args(given)


def _pipeline(line: str) -> Iterator[list[str]]:
    words = shlex.split(line)
    while "|" in words:
        at = words.index("|")
        yield words[:at]
        words = words[at + 1 :]
    yield words
