"""The form of a normalisation rule: a pattern, and how what it finds is said."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

PAUSE_MARK = ","

Say = Callable[[re.Match[str]], Sequence[str]]


class Rule(NamedTuple):
    """`say` gives the spoken words of a match, PAUSE_MARK where a short break belongs."""

    pattern: re.Pattern[str]
    say: Say


def rule(pattern: str, say: Say, flags: int = 0) -> Rule:
    """A rule from the text of its pattern."""
    return Rule(re.compile(pattern, flags), say)


def alternatives(names: Sequence[str]) -> str:
    """A group of literal names, longest first."""
    return "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
