"""Texts in the symbols that Zonos was trained on: eSpeak's, punctuation and letters.

English is read by the project's own frontend, in eSpeak's spelling, on every machine; by eSpeak NG,
where it is installed, if a request says so. Other languages need it.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Final

from ttscommon.wire.errors import BadRequest
from ttsfamilies.base.text.frontend import EnglishFrontend
from ttsfamilies.base.text.rules import british
from ttsfamilies.piper.phones import PROGRAM, English, Espeak, Sentences

OWN, ESPEAK = "own", "espeak"
_UNKNOWN, _BEGIN, _END = 1, 2, 3
SYMBOLS: Final = (
    *("<pad>", "<unknown>", "<begin>", "<end>"),
    *';:,.!?¡¿—…"«»“”() *~-/\\&',
    *"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    *"ɑɐɒæɓʙβɔɕçɗɖðʤəɘɚɛɜɝɞɟʄɡɠɢʛɦɧħɥʜɨɪʝɭɬɫɮʟɱɯɰŋɳɲɴøɵɸθœɶʘɹɺɾɻʀʁɽʂʃʈʧʉʊʋⱱʌɣɤʍχʎʏʑʐʒʔʡʕʢ",
    *"ǀǁǂǃˈˌːˑʼʴʰʱʲʷˠˤ˞↓↑→↗↘'\u0329'ᵻ",
)
# Of a symbol that stands there twice, the last place.
_IDS: Final = {symbol: place for place, symbol in enumerate(SYMBOLS)}
# eSpeak's own names of languages, in the order of the ids that they were trained with.
_CODES: Final = """
af am an ar as az ba bg bn bpy bs ca cmn cs cy da de el en-029 en-gb en-gb-scotland en-gb-x-gbclan
en-gb-x-gbcwmd en-gb-x-rp en-us eo es es-419 et eu fa fa-latn fi fr-be fr-ch fr-fr ga gd gn grc gu
hak hi hr ht hu hy hyw ia id is it ja jbo ka kk kl kn ko kok ku ky la lfn lt lv mi mk ml mr ms mt my
nb nci ne nl om or pa pap pl pt pt-br py quc ro ru ru-lv sd shn si sk sl sq sr sv sw ta te tn tr tt
ur uz vi vi-vn-x-central vi-vn-x-south yue
"""
LANGUAGE_IDS: Final = {code: place for place, code in enumerate(_CODES.split())}
# Tags that eSpeak calls otherwise.
_NAMED: Final = {"en": "en-us", "fr": "fr-fr", "zh": "cmn", "no": "nb"}
# Needs a reading of its characters, which eSpeak does not give.
_UNREAD: Final = ("ja",)
ENGLISH: Final = ("en-US", "en-GB")
_LISTED: Final = """
ar bg ca cs da de el es et fa fi fr hi hr hu id is it ko lt lv nb nl pl pt pt-BR ro ru sk sl sr sv
ta te tr ur vi zh
"""


def code_of(tag: str) -> str:
    """A BCP 47 tag as eSpeak names it; raises BadRequest for a language that is not spoken."""
    name = tag.lower().replace("_", "-")
    for known in (_NAMED.get(name, name), (short := name.partition("-")[0]), _NAMED.get(short)):
        if known in LANGUAGE_IDS and known not in _UNREAD:
            return str(known)
    raise BadRequest(f"this model does not speak {tag!r}", param="language")


def ids_of(text: str) -> tuple[int, ...]:
    """Symbols to ids, between a beginning and an end; what is no symbol has an id of its own."""
    known = unicodedata.normalize("NFC", text)
    return (_BEGIN, *(_IDS.get(symbol, _UNKNOWN) for symbol in known), _END)


class Readings:
    """How texts are read on this machine."""

    def __init__(self, english: EnglishFrontend, espeak: str = PROGRAM) -> None:
        """espeak: the program's name."""
        self._english, self._espeak = english, espeak
        self.installed = Espeak.installed(espeak)
        self._asked: dict[str, Espeak] = {}

    @classmethod
    def load(cls, lexicon: Path) -> Readings:
        """Raises LexiconError without the lexicon of English."""
        return cls(EnglishFrontend.load(lexicon))

    @property
    def tags(self) -> tuple[str, ...]:
        """Languages, as they are listed."""
        return ENGLISH + (tuple(_LISTED.split()) if self.installed else ())

    def of(self, tag: str, way: str) -> Sentences:
        """What reads a text; raises BadRequest where this machine has none."""
        code = code_of(tag)
        if code.startswith("en-") and way == OWN:
            return English(self._english, british(tag))
        if not self.installed:
            param = "extra_params.phones" if code.startswith("en-") else "language"
            raise BadRequest(f"{PROGRAM} is not installed where this model runs", param=param)
        return self._asked.setdefault(code, Espeak(code, self._espeak))
