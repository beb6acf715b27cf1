"""A word that once named several things names one."""

import ast
from collections import defaultdict
from typing import Final

import pytest

from tests.unit.test_imports import PACKAGES, ROOT

WORDS: Final = (
    *("Piece", "State", "Mark", "Place", "Window", "Job", "Prepared", "Told", "Room", "Buckets"),
    *("Lease", "Credit", "Hearer", "Delivery", "Entry", "Leftovers", "Lexicon", "Limits"),
    *("Loading", "Pick", "Progress", "Prompt"),
)


def homes() -> dict[str, set[str]]:
    """Files by the classes and type aliases at their top level."""
    found = defaultdict(set)
    for package, folder in PACKAGES.items():
        if package == "voicetrain":
            continue
        for path in folder.rglob("*.py"):
            for node in ast.parse(path.read_text("utf-8")).body:
                match node:
                    case ast.ClassDef(name=name):
                        found[name].add(str(path.relative_to(ROOT)))
                    case ast.Assign(targets=[ast.Name(id=name)]):
                        found[name].add(str(path.relative_to(ROOT)))
                    case ast.AnnAssign(target=ast.Name(id=name)):
                        found[name].add(str(path.relative_to(ROOT)))
    return found


HOMES: Final = homes()


@pytest.mark.parametrize("word", WORDS)
def test_a_word_names_one_thing(word: str) -> None:
    assert len(HOMES[word]) <= 1, sorted(HOMES[word])
