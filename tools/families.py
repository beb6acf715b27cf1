"""Product lines of each family: talker, codec, facts, networks and synthetic checkpoint.

    python -m tools.families

all: as `wc -l` counts. code: without blank lines, comments and docstrings.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ttsfamilies.known import FAMILIES, FamilyFacts

_LIBS: Final = Path(__file__).parent.parent / "libs/ttsfamilies"
_NO_CODE: Final = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
)


class Lines(NamedTuple):
    """Of a file or of a family."""

    all: int
    code: int


def lines(source: str) -> Lines:
    """Of a module."""
    words = set(_docstrings(source))
    kept: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            kept.update(range(token.start[0], token.end[0] + 1))
    return Lines(len(source.splitlines()), len(kept - words))


def _docstrings(source: str) -> Iterator[int]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            continue
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)


def files_of(family: FamilyFacts) -> list[Path]:
    """All that is the family's own: its folder, and its codec's where that is another's."""
    folders = (_LIBS.joinpath(*home.split(".")) for home in (family.home, family.codec.home))
    return sorted({path for folder in folders for path in folder.rglob("*.py")})


def counted(family: FamilyFacts) -> Lines:
    """Of all of its files."""
    found = [lines(path.read_text("utf-8")) for path in files_of(family)]
    return Lines(sum(one.all for one in found), sum(one.code for one in found))


def main() -> None:
    """Print a line for each family."""
    for family in FAMILIES:
        found = counted(family)
        print(f"{family.title} with {family.codec.title}: {found.all} lines, {found.code} of code")


if __name__ == "__main__":
    main()
