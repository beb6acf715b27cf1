"""Lexicons as clients write them: PLS 1.0 (W3C, 2008) and JSON. Pure, and wary of its input."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, NamedTuple
from xml.parsers import expat

import msgspec

from gateway.errors import InvalidLexicon
from gateway.requests.lexicon import MOST_WORDS, LexiconEntry, words_of
from ttscommon.wire.pieces import Alphabet

_SYMBOLS: Final = {
    **{same: same for same in "abcdefhijklmnopqrstuvwxyz"},
    "g": "ɡ", "A": "ɑ", "{": "æ", "6": "ɐ", "Q": "ɒ", "E": "ɛ", "@": "ə", "3": "ɜ", "I": "ɪ",
    "O": "ɔ", "2": "ø", "9": "œ", "&": "ɶ", "U": "ʊ", "}": "ʉ", "V": "ʌ", "Y": "ʏ", "1": "ɨ",
    "7": "ɤ", "8": "ɵ", "M": "ɯ", "B": "β", "C": "ç", "D": "ð", "F": "ɱ", "G": "ɣ", "H": "ɥ",
    "J": "ɲ", "K": "ɬ", "L": "ʎ", "N": "ŋ", "P": "ʋ", "R": "ʁ", "S": "ʃ", "T": "θ", "W": "ʍ",
    "X": "χ", "Z": "ʒ", "4": "ɾ", "5": "ɫ", "?": "ʔ",
    "@`": "ɚ", "3`": "ɝ", "r\\": "ɹ", "r\\`": "ɻ", "R\\": "ʀ", "I\\": "ᵻ", "h\\": "ɦ",
    "s\\": "ɕ", "z\\": "ʑ", "j\\": "ʝ", "p\\": "ɸ", "B\\": "ʙ", "G\\": "ɢ", "X\\": "ħ",
    "?\\": "ʕ", "@\\": "ɘ", "3\\": "ɞ", "x\\": "ɧ", "v\\": "ʋ", "l\\": "ɺ", "L\\": "ʟ",
    "t`": "ʈ", "d`": "ɖ", "n`": "ɳ", "s`": "ʂ", "z`": "ʐ", "l`": "ɭ", "r`": "ɽ",
    '"': "ˈ", "%": "ˌ", ":": "ː", ":\\": "ˑ", ".": ".", "=": "\u0329", "_=": "\u0329",
    "~": "\u0303", "_~": "\u0303", "_h": "ʰ", "_w": "ʷ", "_j": "ʲ", "'": "ʲ", "_G": "ˠ",
    "_^": "\u032f", "_0": "\u0325", "_d": "\u032a", "`": "˞", "-": "", " ": " ", "|": "|",
}  # fmt: skip
_LONGEST: Final = max(map(len, _SYMBOLS))
MOST_BYTES: Final = 256 << 10
MOST_ENTRIES: Final = 2000
_LONGEST_GRAPHEME: Final = 64
_LONGEST_SAID: Final = 200
_DEEPEST: Final = 16
_SEPARATOR: Final = " "
_ALPHABETS: Final[Mapping[str, Alphabet]] = {
    "ipa": "ipa",
    "x-sampa": "ipa",
    "x-cmu-arpabet": "model",
    "cmu-arpabet": "model",
}


class Parsed(NamedTuple):
    """What a client sent. name: "" where it stands elsewhere."""

    entries: list[LexiconEntry]
    language: str = ""
    name: str = ""


class _Lexeme(msgspec.Struct, forbid_unknown_fields=True):
    """One entry in JSON: spellings, and an alias or phones for them."""

    grapheme: str = ""
    graphemes: list[str] = []
    alias: str = ""
    phoneme: str = ""
    alphabet: str = "ipa"


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    entries: list[_Lexeme]
    name: str = ""
    language: Annotated[str, msgspec.Meta(max_length=64)] = ""


def parse_json(data: bytes) -> Parsed:
    """Raises InvalidLexicon."""
    try:
        body = msgspec.json.decode(data, type=_Body)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise InvalidLexicon(f"the lexicon is not as it should be: {error}") from error
    entries: list[LexiconEntry] = []
    for lexeme in body.entries:
        spellings = [*lexeme.graphemes, *([lexeme.grapheme] if lexeme.grapheme else [])]
        _add(entries, spellings, lexeme.alias, lexeme.phoneme, lexeme.alphabet)
    return Parsed(_require_entries(entries), body.language, body.name)


def parse_pls(data: bytes) -> Parsed:
    """Raises InvalidLexicon, also for a document type: entities can grow without bounds."""
    reader = _PlsReader()
    parser = expat.ParserCreate(namespace_separator=_SEPARATOR)
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise InvalidLexicon(f"the lexicon is not well-formed XML: {error}") from error
    return Parsed(_require_entries(reader.entries), reader.language)


def _refuse_doctype(*_: object) -> None:
    raise InvalidLexicon("a lexicon must not have a document type")


class _PlsReader:
    """Gathers the lexemes of a document; of several readings the preferred one, or the first."""

    def __init__(self) -> None:
        self.entries: list[LexiconEntry] = []
        self.language = ""
        self._path: list[str] = []
        self._alphabet = "ipa"
        self._text: list[str] = []
        self._graphemes: list[str] = []
        self._readings: list[tuple[bool, str, str, str]] = []
        self._attributes: Mapping[str, str] = {}

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        name = name.rpartition(_SEPARATOR)[2]
        if len(self._path) >= _DEEPEST:
            raise InvalidLexicon("the lexicon's elements are nested too deep")
        if not self._path:
            self._begin(name, attributes)
        if name == "lexeme":
            self._graphemes, self._readings = [], []
        self._path.append(name)
        self._text, self._attributes = [], attributes

    def _begin(self, name: str, attributes: Mapping[str, str]) -> None:
        if name != "lexicon":
            raise InvalidLexicon("the document's element must be 'lexicon'")
        self._alphabet = attributes.get("alphabet", "ipa")
        language = f"http://www.w3.org/XML/1998/namespace{_SEPARATOR}lang"
        self.language = attributes.get(language, "")[:64]

    def characters(self, text: str) -> None:
        self._text.append(text)

    def end(self, name: str) -> None:
        name = self._path.pop()
        text = "".join(self._text)
        self._text = []
        if self._path[-1:] == ["lexeme"]:
            self._take(name, text)
        elif name == "lexeme":
            self._close()

    def _take(self, name: str, text: str) -> None:
        preferred = self._attributes.get("prefer") == "true"
        if name == "grapheme":
            self._graphemes.append(text)
        elif name == "alias":
            self._readings.append((not preferred, text, "", ""))
        elif name == "phoneme":
            alphabet = self._attributes.get("alphabet", self._alphabet)
            self._readings.append((not preferred, "", text, alphabet))

    def _close(self) -> None:
        if not self._readings:
            raise InvalidLexicon("a lexeme has neither an alias nor a phoneme")
        _, alias, phones, alphabet = min(self._readings, key=lambda reading: reading[0])
        _add(self.entries, self._graphemes, alias, phones, alphabet or "ipa")


def _add(
    entries: list[LexiconEntry], graphemes: Sequence[str], alias: str, phones: str, alphabet: str
) -> None:
    """Check one lexeme and add it under each of its spellings; raises InvalidLexicon."""
    spellings = [_plain(one) for one in graphemes]
    alias, phones = _plain(alias), _plain(phones)
    if not spellings or not all(spellings):
        raise InvalidLexicon("an entry needs a grapheme")
    first = spellings[0][:_LONGEST_GRAPHEME]
    if bool(alias) == bool(phones):
        raise InvalidLexicon(f"'{first}': an entry needs an alias or a phoneme, and not both")
    if len(alias) > _LONGEST_SAID or len(phones) > _LONGEST_SAID:
        raise InvalidLexicon(f"'{first}': at most {_LONGEST_SAID} characters may be said for it")
    for spelling in spellings:
        if len(spelling) > _LONGEST_GRAPHEME or words_of(spelling) > MOST_WORDS:
            raise InvalidLexicon(
                f"'{first}': a grapheme has at most {_LONGEST_GRAPHEME} characters, and"
                f" {MOST_WORDS} words, spaces and marks"
            )
    known, said = _phones(first, phones, alphabet) if phones else ("ipa", "")
    entries += [LexiconEntry(spelling, alias, said, known) for spelling in spellings]
    if len(entries) > MOST_ENTRIES:
        raise InvalidLexicon(f"a lexicon has at most {MOST_ENTRIES} graphemes")


def _phones(grapheme: str, phones: str, alphabet: str) -> tuple[Alphabet, str]:
    known = _ALPHABETS.get(alphabet.lower())
    if known is None:
        raise InvalidLexicon(f"'{grapheme}': the alphabet must be one of {', '.join(_ALPHABETS)}")
    said = to_ipa(phones) if alphabet.lower() == "x-sampa" else phones
    if not said:
        raise InvalidLexicon(f"'{grapheme}': these phones are not X-SAMPA")
    return known, said


def _plain(text: str) -> str:
    """Without control characters, in NFC, as the text is in which it is looked for."""
    kept = "".join(c if c.isprintable() else " " for c in unicodedata.normalize("NFC", text))
    return " ".join(kept.split())


def _require_entries(entries: list[LexiconEntry]) -> list[LexiconEntry]:
    if not entries:
        raise InvalidLexicon("the lexicon has no entry")
    return entries


def to_ipa(phones: str) -> str:
    """'t@"meIt@U' -> "təˈmeɪtəʊ"; "" where a symbol is none of X-SAMPA's."""
    found, at = "", 0
    while at < len(phones):
        symbol = next(
            (
                phones[at : at + n]
                for n in range(_LONGEST, 0, -1)
                if phones[at : at + n] in _SYMBOLS
            ),
            None,
        )
        if symbol is None:
            return ""
        found += _SYMBOLS[symbol]
        at += len(symbol)
    return found
