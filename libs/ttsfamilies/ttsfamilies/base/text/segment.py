"""Cut text into utterances, word by word as it arrives.

Where a cut falls depends on the text alone: on what stands before it and at most one word after
it, never on how the text was split into pieces. A successor that reads the text from the log
therefore finds the same utterances.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from sentencex import segment

from ttsfamilies.base.text import lines
from ttsfamilies.base.text.names import STATES
from ttsfamilies.base.text.rules import collection
from ttsfamilies.base.text.words import DOTTED, ENDING_SENTENCES, TITLES, WEEKDAYS

FIRST_CLAUSE_WORDS = range(4, 13)
LONGEST_WORDS = 40
_CLAUSE_CUT_FROM = 12
_JOINT_CUT = range(20, 37)
_PLAIN_CUT = 30
_LONGEST_WORD = 200

_WORD = re.compile(rf"[0-9]{{40}}|\S{{1,{_LONGEST_WORD}}}")
_DIGIT = re.compile(r"[0-9]")
_GAP = re.compile(r"\s*")
_OPENERS = "\"'“‘«([{*_`"
CLOSERS = "\"'”’»)]}*_`"
_QUOTES, _BRACKETS = frozenset("\"'”’»"), frozenset(")]}")
TERMINATORS = (".", "!", "?", "…", "。", "！", "？")
_CLAUSE_MARKS = (",", ";", ":", "—", "–")
_SHORT = frozenset((*DOTTED, "approx", "vol", "Vol"))  # with a full stop
_TITLED = frozenset(f"{title}." for title in (*TITLES, "Dr"))
_LIST_MARKER = re.compile(r"[-*•–—#]+|\(?\d{1,3}[.)]|\(?[a-z]\)")
JOINTS = collection(
    "and but or so because then which who that when while where although though if unless "
    "until after before with for"
)


class Cut(NamedTuple):
    """An utterance, where it begins in all that was fed, and whether a paragraph ended before it,
    or a heading.
    """

    text: str
    start: int
    paragraph: bool = False


class Segmenter:
    """Utterances of one request, in order.

    A cut falls after a sentence (by sentencex) and at the end of a line, unless it was only
    wrapped there. The first utterance may also end at a clause mark, so that sound starts early,
    unless it is to be `whole`. What grows past `longest_words` is cut at its last clause mark, else
    before a joining word, else anywhere between words. Digits and long words count as several: they
    take longer to say.
    """

    def __init__(self, *, whole: bool = False, longest_words: int = LONGEST_WORDS) -> None:
        self._whole, self._longest_words = whole, longest_words
        self._text = ""
        self._start = 0
        self._origin = 0  # of self._text in all that was fed
        self._words: list[tuple[int, int]] = []
        self._scanned = 0
        self._first = True
        self._finished = False
        self._line = -1  # where the present line begins in all that was fed
        self._heading = self._wrapped = False  # the present line; a line of the paragraph
        self._paragraph = False  # one ended before the next utterance

    def feed(self, text: str, final: bool = False) -> list[str]:
        """Add text, and get the utterances that are now certain, without outer white space.

        With `final` the rest is returned as well; feeding more raises ValueError.
        """
        return [cut.text for cut in self.cuts(text, final)]

    def cuts(self, text: str, final: bool = False) -> list[Cut]:
        """`feed`, with the place of each utterance."""
        if self._finished:
            raise ValueError("the text has already ended")
        self._finished = final
        self._text = self._text[self._start :] + text
        self._origin += self._start
        self._words = [(a - self._start, b - self._start) for a, b in self._words]
        self._scanned -= self._start
        self._start = 0
        utterances = []
        while (word := self._next_word(self._scanned)) is not None:
            self._follow_lines(word)
            cut = self._cut_after(word)
            if cut is None:
                break
            self._words.append(word)
            self._scanned = word[1]
            if cut:
                utterances.append(self._take(len(self._words)))
            elif self._weight(len(self._words)) >= self._longest_words:
                utterances.append(self._take(self._forced_cut()))
        if final and self._words:
            utterances.append(self._take(len(self._words)))
        return utterances

    def flush(self) -> list[Cut]:
        """The utterances of what was fed so far, as if the text ended here; more may follow."""
        self._finished = False
        utterances = self.cuts("", final=True)
        self._finished = False
        self._origin += len(self._text)
        self._text, self._words, self._start, self._scanned = "", [], 0, 0
        self._line, self._heading, self._wrapped = -1, False, False
        return utterances

    def _follow_lines(self, word: tuple[int, int]) -> None:
        """What stands between the word before and this one."""
        newlines = self._text.count("\n", self._scanned, word[0])
        if self._line >= 0 and (not newlines or self._line == self._origin + word[0]):
            return
        ended = newlines > 1 or self._heading
        self._paragraph = self._paragraph or ended
        self._wrapped = not ended and (self._wrapped or bool(self._words))
        self._line = self._origin + word[0]
        self._heading = not self._text[slice(*word)].strip("#")

    def _next_word(self, position: int) -> tuple[int, int] | None:
        """The next whole word, or None as long as it may still grow."""
        start = _end(_GAP, self._text, position)
        end = _end(_WORD, self._text, start)
        grows = end == len(self._text) and end - start < _LONGEST_WORD and not self._finished
        return None if grows or start == end else (start, end)

    def _cut_after(self, word: tuple[int, int]) -> bool | None:
        """Whether an utterance ends after this word; None as long as that is not certain."""
        start, end = word
        written = self._text[start:end]
        core = written.rstrip(CLOSERS)
        marks = written[len(core) :]
        ends_sentence = core.endswith(TERMINATORS) and not self._only_marker(written, core)
        resume = _end(_GAP, self._text, end)
        newlines = self._text.count("\n", end, resume)
        if newlines > 1 or (newlines and ends_sentence and core not in _TITLED):
            return True
        if resume == len(self._text):
            return False if self._finished else None
        if newlines or ends_sentence:
            following = self._next_word(end)
            if following is None:
                return None
            if newlines:
                word_after = self._text[slice(*following)]
                line = self._origin + end - self._line
                return self._heading or lines.breaks(line, written, word_after, self._wrapped)
            closed = marks and self._text[resume].islower()
            goes_on = closed or _goes_on(core, marks, self._text[resume])
            return not goes_on and self._sentence_ends(word, marks, following)
        early = self._first and not self._whole and len(self._words) + 1 in FIRST_CLAUSE_WORDS
        if not early or not core.endswith(_CLAUSE_MARKS) or self._text[resume].isdigit():
            return False
        return self._clause_ends(word, resume)

    def _clause_ends(self, word: tuple[int, int], resume: int) -> bool | None:
        """Whether a clause mark ends a clause rather than "Boston" of "Boston, MA"."""
        written = self._text[slice(*word)]
        if written.endswith(",") and written[:-1] in WEEKDAYS:
            return False
        following = self._text[resume : resume + 3]
        if not written[0].isupper() or not following[0].isupper():
            return True
        if (
            len(following) < 3
            and following.isalpha()
            and following.isupper()
            and not self._finished
        ):
            return None
        return not (following[:2] in STATES and not following[2:].isalnum())

    def _only_marker(self, written: str, core: str) -> bool:
        """Whether an utterance would consist of "1.", "**1.**" or the like alone."""
        markers = (written, core.lstrip(_OPENERS))
        return not self._words and any(map(_LIST_MARKER.fullmatch, markers))

    def _sentence_ends(self, last: tuple[int, int], marks: str, following: tuple[int, int]) -> bool:
        """Whether it ends behind this word, by sentencex, which knows no mark but one quotation
        mark behind a stop; others it is not shown. Abbreviations in brackets end none.
        """
        (start, end), word = last, self._text[slice(*following)]
        position = self._words[0][0] if self._words else self._start
        read = self._text[position:end]
        if marks not in ("", *_QUOTES):
            bare = self._text[start : end - len(marks)].lstrip(_OPENERS)
            read, word = self._text[position:start] + bare, word.strip(_OPENERS + CLOSERS)
        if _BRACKETS & set(marks):
            word = word.lower()
        seen, gap = 0, self._text[end : following[0]]
        for sentence in segment("en", read + gap + word):
            seen += len(sentence)
            if seen >= len(read):
                return seen <= len(read + gap)
        return False

    def _weight(self, count: int) -> int:
        """About how many words the first `count` words are when spoken."""
        weight = 0
        for start, end in self._words[:count]:
            digits = len(_DIGIT.findall(self._text, start, end))
            weight += 1 + digits // 2 + (end - start) // 20
        return weight

    def _forced_cut(self) -> int:
        """How many words to take of a text that is too long for one utterance."""
        words = [self._text[start:end] for start, end in self._words]
        weights = [self._weight(count) for count in range(len(words) + 1)]
        for count in range(len(words), 0, -1):
            marked = words[count - 1].rstrip(CLOSERS).endswith(_CLAUSE_MARKS)
            if marked and weights[count] >= _CLAUSE_CUT_FROM:
                return count
        for count in range(len(words) - 1, 0, -1):
            if weights[count] in _JOINT_CUT and words[count].lower() in JOINTS:
                return count
        return max(1, sum(weight <= _PLAIN_CUT for weight in weights) - 1)

    def _take(self, count: int) -> Cut:
        start = self._words[0][0]
        text = self._text[start : self._words[count - 1][1]]
        utterance = Cut(text, self._origin + start, self._paragraph)
        self._paragraph = False
        self._start = self._words[count - 1][1]
        del self._words[:count]
        self._first = False
        return utterance


def _goes_on(core: str, marks: str, following: str) -> bool:
    """Whether the full stop of "eq.", "Mon." or "(ed.)" ends no sentence, by the marks and the
    character behind it.
    """
    short = core.lstrip(_OPENERS).removesuffix(".")
    if short not in _SHORT or not core.endswith(".") or _QUOTES & set(marks):
        return False
    number = following.isdigit() or following == "("
    small = following.islower() and short not in ENDING_SENTENCES
    return number or small or bool(_BRACKETS & set(marks))


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def utterances(text: str) -> list[str]:
    """All utterances of a whole text, the same as feeding it in pieces."""
    return Segmenter().feed(text, final=True)


# Long texts in passages: whole sentences, as many as a model speaks well at once.
#
# Where a passage ends follows from the text alone, as utterances do: not from how the text
# arrived. A text that fits is one passage, as it was written, on one line: what these models
# learned from.


_UNMEASURED: Final = 8
_ONE_LINE: Final = str.maketrans("\t\n", "  ")


class Passages:
    """The passages of one request's text, in order.

    measure: how long a text is, in whatever the model counts. most: of a passage, unless one
    utterance is longer. ends: whether a text that ends with an utterance is a passage, however
    short.
    """

    def __init__(
        self,
        measure: Callable[[str], int],
        most: int,
        ends: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._measure, self._most, self._ends = measure, most, ends
        self._segmenter = Segmenter()
        self._text = ""
        self._end = 0  # of the passage's last utterance, within the text

    def feed(self, text: str, *, final: bool) -> Iterator[str]:
        """Add text: passages that are certain now; all of them with `final`."""
        self._text += text
        for utterance in self._segmenter.feed(text, final=final):
            end = self._text.index(utterance, self._end) + len(utterance)
            if self._end and self._too_long(self._text[:end]):
                yield self._taken()
                end = self._text.index(utterance) + len(utterance)
            self._end = end
            if self._ends(self._text[:end]):
                yield self._taken()
        if final and self._end:
            yield self._taken()

    def _too_long(self, text: str) -> bool:
        # No tokenizer makes more tokens of a text than it has bytes.
        return len(text) * _UNMEASURED > self._most and self._measure(text) > self._most

    def _taken(self) -> str:
        passage, self._text = self._text[: self._end].strip(), self._text[self._end :]
        self._end = 0
        return passage.translate(_ONE_LINE)
