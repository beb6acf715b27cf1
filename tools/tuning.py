"""The tuning figures of the code, as a part of docs/settings.md.

They are fields of dataclasses whose names end in Tuning, each with its prose below it. No variable
sets them: they follow from one another and from what brokers do, and tests set them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
_HOMES: Final = (
    "libs/ttscommon",
    "libs/ttsfamilies",
    "services/gateway",
    "services/talker",
    "services/vocoder",
)
_INTRODUCTION: Final = (
    "## Tuning figures\n\nFixed in the code: no variable sets them, because they follow from one "
    "another and from how long brokers take. Names that end in `_s` are seconds.\n"
)


@dataclass(frozen=True)
class Figures:
    """A Tuning class: where it is, what it is about, and the prose of each field."""

    kind: type
    path: str
    about: str
    prose: dict[str, str]

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Name, default and prose of each figure; what is a Tuning itself has its own table."""
        for field in fields(self.kind):
            if (value := _default(field)) is not None:
                yield field.name, value, self.prose.get(field.name, "")


def found() -> list[Figures]:
    """Every Tuning class of the services and their library, by module."""
    paths = (path for home in _HOMES for path in sorted((ROOT / home).rglob("*.py")))
    return [one for path in paths if "Tuning:" in path.read_text("utf-8") for one in _of(path)]


def _of(path: Path) -> Iterator[Figures]:
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name.endswith("Tuning"):
            home = next(ROOT / home for home in _HOMES if path.is_relative_to(ROOT / home))
            module = ".".join(path.relative_to(home).with_suffix("").parts)
            kind = getattr(import_module(module), node.name)
            about = _line(ast.get_docstring(node) or "")
            yield Figures(kind, str(path.relative_to(ROOT)), about, dict(_prose(node)))


def _prose(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """A string below a field is about it."""
    for field, below in zip(node.body, node.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match below:
                case ast.Expr(ast.Constant(value=str() as text)):
                    yield field.target.id, _line(text)


def _line(text: str) -> str:
    return " ".join(text.split())


def _default(field: Field[Any]) -> str | None:
    if field.default is MISSING:
        return None
    return f"{field.default:,}" if isinstance(field.default, int) else f"{field.default:g}"


def section() -> str:
    """The section of the page, a table for each class."""
    return "\n".join([_INTRODUCTION, *(_table(figures) for figures in found())])


def _table(figures: Figures) -> str:
    name, path = figures.kind.__name__, figures.path
    rows = [f"| `{field}` | `{value}` | {prose} |" for field, value, prose in figures.rows()]
    head = f"### {name}\n\n{figures.about} In [{path}](../{path}).\n"
    return "\n".join([head, "| figure | default | |", "| --- | --- | --- |", *rows, ""])
