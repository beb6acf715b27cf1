"""The vesper voice's lexicon: the words of misaki's dictionaries in the frontend's phones.

misaki's American dictionaries (Apache-2.0) come with the teacher, and its readings are what the
teacher learned from: which words are reduced, where the second stress lies, which t is flapped.
Words that only flite's lexicon has keep its phones, with one primary stress; words of WordNet that
neither has are read by the teacher's own network for unknown words. What is left to flite's
letter-to-phone trees are words that are in no list.
"""

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ttsfamilies.base.text.ipa import CONSONANTS, VOWELS
from ttsfamilies.base.text.lexicon import derived, is_vowel
from ttsfamilies.base.text.misaki import symbols_of
from voicetrain.vesper.teacher import graph_path

_TAGS: Final = {"NOUN": "n", "VERB": "v", "ADJ": "j", "ADV": "r", "None": "end"}
_OWN_TAG: Final = "0"
REDUCED: Final = "ix0"
"""The vowel of "wanted" and "wishes"."""
_STRESSES: Final = {"ˈ": "1", "ˌ": "2"}
_SAME: Final = str.maketrans({"ɾ": "T", "ʔ": "t"})
_LATE_STRESS: Final = ("tion", "sion", "cian", "ic", "ical", "ically", "ity", "ology", "graphy")
_EXCEPTIONS: Final[dict[str, str | dict[str, str]]] = {
    "a": {"d": "ac0", "n": "ey1"},
    "an": "ac0 n",
    "i": "ay2",
    "_a": "ey1",
    "the": "dh ax0",
    "august": "ao1 g ax0 s t",
    "'s": "z",
    "'d": "d",
    "'ll": "ex0 l",
    "'ve": "v",
    "'re": "er0",
    "'m": "m",
}
"""What misaki decides by rule and the frontend by word: articles, letters, "I", endings."""
_SPELT: Final = ("apis", "cpus")
"""Plurals of initials that misaki lists as words."""


def _inventory() -> dict[str, str]:
    """Symbols -> phone without its stress digit, for all phones, the longest symbols first."""
    vowels = (*VOWELS, "ac", "ex", "ix")
    found = {symbols_of(vowel + "0"): vowel for vowel in vowels if vowel != "er"}
    found |= {symbols_of(consonant): consonant for consonant in (*CONSONANTS, "dx")}
    return found


_PHONE_OF: Final = _inventory()


def phones_of(symbols: str) -> list[str] | None:
    """misaki's symbols as phones with stress digits, or None for a symbol that has no phone."""
    phones, stress, at = [], "0", 0
    symbols = symbols.translate(_SAME)
    while at < len(symbols):
        if symbols[at] in _STRESSES:
            stress, at = _STRESSES[symbols[at]], at + 1
            continue
        if symbols.startswith("ɜɹ", at):
            phones.append("ur0" if stress == "0" else "er" + stress)
            stress, at = "0", at + 2
        elif symbols.startswith("əɹ", at) and stress == "0":
            phones.append("er0")
            at += 2
        else:
            phone = _PHONE_OF.get(symbols[at])
            if phone is None:
                return None
            vowel = is_vowel(phone)
            phones.append(phone + stress if vowel else phone)
            stress, at = "0" if vowel else stress, at + 1
    return phones


def _readings(entry: str | Mapping[str, str | None]) -> str | dict[str, str] | None:
    """An entry of misaki as one of ours: phones, or phones by tag, the usual ones first."""
    if isinstance(entry, str):
        phones = phones_of(entry)
        return None if phones is None else " ".join(phones)
    usual = phones_of(entry["DEFAULT"] or "")
    if usual is None:
        return None
    found = {_OWN_TAG: " ".join(usual)}
    for theirs, ours in _TAGS.items():
        phones = phones_of(entry.get(theirs) or "") if entry.get(theirs) else None
        if phones is not None and " ".join(phones) != found[_OWN_TAG]:
            found[ours] = " ".join(phones)
    return found if len(found) > 1 else found[_OWN_TAG]


def dictionary(name: str) -> dict[str, Any]:
    """One of misaki's American dictionaries, `gold` or `silver`."""
    path = graph_path().parent / f"lexicon_us_{name}.json.gz"
    loaded: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return loaded


def misaki_entries() -> dict[str, str | dict[str, str]]:
    """Lower-case words with their phones; the better dictionary and the lower-case key win."""
    found: dict[str, str | dict[str, str]] = {}
    for name in ("gold", "silver"):
        entries = dictionary(name)
        for word in sorted(entries, key=lambda word: (not word.islower(), word.isupper(), word)):
            lower = word.lower()
            if lower in found or (len(word) > 1 and word.isupper() and name == "silver"):
                continue
            if len(word) == 1 and word.islower():
                continue
            readings = _readings(entries[word])
            if readings is not None:
                found[lower] = readings
    return found


def with_one_primary_stress(phones: list[str], word: str) -> list[str]:
    """flite marks every stressed vowel alike; one keeps its mark, the others become secondary."""
    stressed = [index for index, phone in enumerate(phones) if phone.endswith("1")]
    if len(stressed) < 2:
        return phones
    kept = stressed[-1] if word.endswith(_LATE_STRESS) else stressed[0]
    return [
        phone[:-1] + "2" if index in stressed and index != kept else phone
        for index, phone in enumerate(phones)
    ]


def flapped(phones: list[str]) -> list[str]:
    """A t between a vowel (or r) and an unstressed vowel is flapped in American English."""
    made = list(phones)
    for index in range(1, len(phones) - 1):
        before, after = phones[index - 1], phones[index + 1]
        opens = is_vowel(before) or before == "r"
        if phones[index] == "t" and opens and is_vowel(after) and after.endswith("0"):
            made[index] = "dx"
    return made


def build(flite: Mapping[str, Any], unknown: Callable[[str], str] | None = None) -> dict[str, Any]:
    """The lexicon's content. flite: the content of `voicetrain.lexicon.build`.

    unknown: reads a word as misaki's symbols; the teacher's own network by default.
    """
    read = unknown or _teacher_reader()
    entries = misaki_entries()
    listed = dict(entries)
    for word, phones in flite["words"].items():
        if word not in listed and not _inflected(word, listed):
            entries[word] = " ".join(flapped(with_one_primary_stress(phones.split(), word)))
    for word in flite["known"].split():
        if word not in entries and not _inflected(word, listed):
            phones_read = phones_of(read(word))
            if phones_read:
                entries[word] = " ".join(phones_read)
    entries = {word: e for word, e in entries.items() if word not in _SPELT} | _EXCEPTIONS
    return {
        "format": flite["format"],
        "words": {w: e for w, e in sorted(entries.items()) if isinstance(e, str)},
        "homographs": {w: e for w, e in sorted(entries.items()) if not isinstance(e, str)},
        "known": "",
        "reduced_vowel": REDUCED,
        "letters": flite["letters"],
        "tagger": flite["tagger"],
        "function_words": flite["function_words"],
    }


def _inflected(word: str, listed: Mapping[str, str | dict[str, str]]) -> bool:
    """Whether the frontend derives the word from one that misaki lists."""

    def phones(stem: str) -> str | None:
        entry = listed.get(stem)
        return next(iter(entry.values())) if isinstance(entry, dict) else entry

    return derived(word, phones, listed.__contains__, REDUCED) is not None


def _teacher_reader() -> Callable[[str], str]:
    from hibari.g2p import G2P

    read: Callable[[str], str] = G2P().oov
    return read


def write(content: Mapping[str, Any], path: Path) -> None:
    """Write `lexicon.json.gz`, the same bytes each time."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
