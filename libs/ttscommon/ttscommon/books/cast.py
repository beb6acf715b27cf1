"""Speakers: `Name: text` in a book, and the voices that a cast gives them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from ttscommon.books.book import BookPassage, InvalidBook

# The name in a cast for all that no named speaker says.
NARRATOR: Final = "narrator"
# The voices of a model are speakers too, by id and by name: one of Piper's has 904.
MOST_SPEAKERS: Final = 10_000
_LONGEST_NAME: Final = 64


@dataclass(frozen=True)
class Cast:
    """Voices by the names of speakers, which are the same in any case."""

    voices: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.voices) > MOST_SPEAKERS:
            raise InvalidBook(f"a cast has at most {MOST_SPEAKERS} speakers")

    @cached_property
    def _folded(self) -> Mapping[str, str]:
        return {name.casefold(): voice for name, voice in self.voices.items()}

    def voice(self, speaker: str | None) -> str | None:
        """The narrator's where the cast does not name the speaker; None where it has neither."""
        narrator = self._folded.get(NARRATOR)
        return narrator if speaker is None else self._folded.get(speaker.casefold(), narrator)


def parse_cast(text: str) -> Cast:
    """`Name = voice`, a line each; what follows a # is a comment. Raises InvalidBook."""
    voices: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        name, equals, voice = (part.strip() for part in line.partition("="))
        if not (name and equals and voice) or ":" in name or len(name) > _LONGEST_NAME:
            raise InvalidBook(f"line {number} of the cast is not `Name = voice`: {line[:80]}")
        voices[name] = voice
    return Cast(voices)


class Speakers:
    """Finds who says what. Only names that are known count: any sentence may hold a colon."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {name.casefold(): name for name in names if len(name) <= _LONGEST_NAME}

    def passages(self, paragraph: str) -> Iterator[BookPassage]:
        """A paragraph is the narrator's up to a line that begins with a name."""
        speaker: str | None = None
        said: list[str] = []
        for line in paragraph.split("\n"):
            name, rest = self._split(line)
            if name is not None:
                yield from _passage(said, speaker)
                speaker, said = name, []
            said.append(rest)
        yield from _passage(said, speaker)

    def _split(self, line: str) -> tuple[str | None, str]:
        said, colon, rest = line.partition(":")
        if not colon or (rest and not rest[0].isspace()):
            return None, line
        name = self._names.get(said.strip().casefold())
        return (None, line) if name is None else (name, rest.lstrip())


def _passage(lines: Iterable[str], speaker: str | None) -> Iterator[BookPassage]:
    """None of what nothing can be said of: rules, ornaments, space."""
    text = " ".join(" ".join(lines).split())
    if any(character.isalnum() for character in text):
        yield BookPassage(text, speaker)
