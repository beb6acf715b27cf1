"""The notation of this package: tables of words, and rules of what a pattern is said as."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple


def table(text: str) -> dict[str, str]:
    """ "Mr: mister, Mrs: missus" as a dictionary; line breaks count as white space."""
    entries = (" ".join(entry.split()).partition(": ") for entry in text.split(","))
    return {key: value for key, _, value in entries if key}


def listing(text: str) -> list[str]:
    """The words of a text."""
    return text.split()


def collection(text: str) -> frozenset[str]:
    """The distinct words of a text."""
    return frozenset(text.split())


# The English that a request is written in.


_DAY_FIRST = collection("gb uk ie au nz in za")


def british(language: str) -> bool:
    """Whether a language tag such as "en-GB" puts the day first and says "one hundred and five".

    Others, and English without a country, are read as in the United States.
    """
    primary, _, country = language.replace("_", "-").lower().partition("-")
    return primary == "en" and country in _DAY_FIRST


# The form of a normalisation rule: a pattern, and how what it finds is said.


PAUSE_MARK = ","

Say = Callable[[re.Match[str]], Sequence[str] | None]


class Rule(NamedTuple):
    """`say` gives the spoken words of a match, PAUSE_MARK where a short break belongs.

    It gives None where what stands around the match forbids this reading: then later rules see
    the text. needs: a text that holds none of these characters holds no match; empty where
    that is not known. literal: a text without it holds no match.
    """

    pattern: re.Pattern[str]
    say: Say
    needs: frozenset[str] = frozenset()
    literal: str = ""


def rule(pattern: str, say: Say, flags: int = 0, needs: str = "", literal: str = "") -> Rule:
    """A rule from the text of its pattern."""
    return Rule(re.compile(pattern, flags), say, frozenset(needs), literal)


def before(match: re.Match[str], characters: int = 24) -> str:
    """The last characters before a match; few, so that time stays linear in the text."""
    return match.string[max(0, match.start() - characters) : match.start()]


def alternatives(names: Sequence[str]) -> str:
    """A group of literal names, longest first."""
    return "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))


def behind(names: Sequence[str]) -> str:
    """A look behind for any of the names and a space, in any case."""
    return "(?i:" + "|".join(rf"(?<=\b{re.escape(name)} )" for name in names) + ")"
