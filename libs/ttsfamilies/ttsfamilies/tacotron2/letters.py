"""From an utterance to the letters that the model was trained on, and the words spelt by them.

The table is that of the LJSpeech recipe: a blank, marks, letters, and phones that are not used. The
project's frontend reads numbers and abbreviations, where the recipe has a cleaner.
"""

from __future__ import annotations

from typing import Final

from ttsfamilies.base.text.frontend import EnglishFrontend, Given, Utterance
from ttsfamilies.piper.phones import Sentence

_CAPITALS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SYMBOLS: Final = f"_-!'(),.:;? {_CAPITALS}{_CAPITALS.lower()}"
SYMBOLS: Final = 148
"""Rows of the table, 84 phones included."""
# In the form that voices have which put marks around a sentence.
TABLE: Final = {symbol: [at] for at, symbol in enumerate(_SYMBOLS)} | {"_": [], "^": [], "$": []}
_DASH: Final = "—"
_STOP: Final = "."


class Letters:
    """Reads utterances as the recipe's cleaner leaves them: small letters, and marks."""

    def __init__(self, frontend: EnglishFrontend) -> None:
        self._frontend = frontend

    def __call__(self, text: str, given: tuple[Given, ...] = ()) -> Sentence:
        return spelt_out(self._frontend.phones(text, given))


def spelt_out(utterance: Utterance) -> Sentence:
    """The words as they are read, with the marks behind them; there is one at the end."""
    symbols, words, marks = list[str](), [], _marks(utterance)
    for word in utterance.words:
        symbols += " " * bool(symbols)
        start = len(symbols)
        symbols += word.spoken.lower()
        words.append(word._replace(start=start, end=len(symbols)))
        symbols += marks.get(word.end, "")
    return Sentence((), tuple(words), (), tuple(symbols))


def _marks(utterance: Utterance) -> dict[int, str]:
    """Marks by the phone that they stand at: the pause behind a word."""
    pauses = [at for at, phone in enumerate(utterance.phones) if phone.word < 0][1:]
    found = dict(zip(pauses, utterance.marks, strict=True))
    last = pauses[-1]
    found[last] = found[last] or _STOP
    return {at: mark.replace(_DASH, "-") for at, mark in found.items()}
