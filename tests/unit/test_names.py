"""A word that once named several things names one."""

import re
from collections import defaultdict
from functools import cache
from typing import Final

import pytest

from tests.unit.test_imports import PACKAGES, ROOT

WORDS: Final = (
    *("Piece", "State", "Mark", "Place", "Window", "Job", "Prepared", "Told", "Room", "Buckets"),
    *("Lease", "Credit", "Hearer", "Delivery", "Entry", "Leftovers", "Lexicon", "Limits"),
    *("Loading", "Pick", "Progress", "Prompt"),
)
DEFINED: Final = re.compile(r"^(?:class )?(\w+) *[(:=]", re.MULTILINE)


@cache
def homes() -> dict[str, set[str]]:
    """Files by the classes and type aliases at their top level."""
    found = defaultdict(set)
    for package, folder in PACKAGES.items():
        if package == "voicetrain":
            continue
        for path in folder.rglob("*.py"):
            for name in DEFINED.findall(path.read_text("utf-8")):
                found[name].add(str(path.relative_to(ROOT)))
    return found


@pytest.mark.parametrize("word", WORDS)
def test_a_word_names_one_thing(word: str) -> None:
    assert len(homes()[word]) <= 1, sorted(homes()[word])
