"""Readings that depend on the neighbours: abbreviations, Roman numerals, signs, "Polish"."""

import re
from collections.abc import Sequence

from ttsfamilies.base.text import numbers
from ttsfamilies.base.text.atoms import NOTHING, Atom
from ttsfamilies.base.text.names import STATES, WAYS
from ttsfamilies.base.text.rules import collection
from ttsfamilies.base.text.words import (
    ALSO_WORDS,
    DOTTED,
    ENDING_SENTENCES,
    KINGS,
    RULERS,
    SAINT_STREET,
    SECTIONS,
    SYMBOLIC,
    TITLES,
    spell,
)

_SIGNS = {"+": "plus", "=": "equals", "&": "and", "%": "percent", "@": "at"}
_SIGNS_BETWEEN_NUMBERS = {
    "<": ["less", "than"],
    ">": ["greater", "than"],
    "*": ["times"],
    "x": ["times"],
    "/": ["divided", "by"],
    "^": ["to", "the", "power", "of"],
    "-": ["minus"],
    "<=": ["at", "most"],
    ">=": ["at", "least"],
    "==": ["equals"],
    "!=": ["is", "not"],
}
_SIGNS_BEFORE_NUMBERS = {"~": ["about"], ">": ["more", "than"], "<": ["less", "than"]}
_WAYS_ALONE = collection("Blvd Ave Rd Hwy Expy Pkwy Tpke Fwy")
_RANGED = frozenset(("time", "date"))
_COUNTED = frozenset(("money", "measure", "number", "fraction"))
_SMALL_ROMAN = re.compile("I{2,3}|IV|VI{1,3}|IX|XI{1,3}|XIV|XVI{0,3}|XIX")
_ALWAYS_TITLES = collection("Mr Mrs Ms Mx Prof Jr Sr Dr")
_POLISHED = collection("the your my his her our their it this that these those up off and all")


def neighbour(atoms: Sequence[Atom], index: int) -> Atom:
    """The atom at an index, or an empty one outside."""
    return atoms[index] if 0 <= index < len(atoms) else NOTHING


def reading(atoms: Sequence[Atom], index: int) -> list[str] | None:
    """Spoken words of a bare atom where its neighbours decide, else None."""
    atom = atoms[index]
    symbolic = SYMBOLIC.get(atom.text.rstrip(",.;:!?)"))
    if symbolic is not None:
        return symbolic.split()
    if not atom.core:
        return _sign(atoms, index)
    if len(atom.core) == 1 and atom.core in "Aa":
        return _letter_a(atoms, index)
    for reader in (
        _title,
        _saint_or_street,
        _after_the,
        _roman,
        _homograph,
        _state_or_way,
        _dotted,
    ):
        words = reader(atoms, index)
        if words is not None:
            return words
    return None


def _sign(atoms: Sequence[Atom], index: int) -> list[str]:
    atom = atoms[index]
    before, after = neighbour(atoms, index - 1), neighbour(atoms, index + 1)
    glued = before.end == atom.start and atom.end == after.start
    if before.numeric and after.numeric:
        return _between_numbers(atoms, index, glued)
    if atom.text == "/":
        return [] if glued or NOTHING in (before, after) else ["slash"]
    if after.numeric and len(atom.text) == 2 and atom.text in _SIGNS_BETWEEN_NUMBERS:
        return _SIGNS_BETWEEN_NUMBERS[atom.text]
    if after.numeric and atom.text in _SIGNS_BEFORE_NUMBERS:
        return _SIGNS_BEFORE_NUMBERS[atom.text]
    between = before is not NOTHING and after is not NOTHING
    spoken = atom.text in _SIGNS and (between or atom.text == "%")
    return [_SIGNS[atom.text]] if spoken else []


def _between_numbers(atoms: Sequence[Atom], index: int, glued: bool) -> list[str]:
    text = atoms[index].text
    kinds = {atoms[index - 1].kind, atoms[index + 1].kind}
    if text == "-" and (kinds <= _RANGED or (glued and len(kinds) == 1 and kinds <= _COUNTED)):
        return ["to"]
    if glued and text in ("-", ":"):
        verse = neighbour(atoms, index - 2).core[:1].isupper()
        return ["to"] if text == ":" and not verse else []
    if glued and text == "/":
        return ["slash"]
    return _SIGNS_BETWEEN_NUMBERS.get(text) or [*filter(None, [_SIGNS.get(text)])]


def _letter_a(atoms: Sequence[Atom], index: int) -> list[str]:
    atom, before, after = atoms[index], neighbour(atoms, index - 1), neighbour(atoms, index + 1)
    glued = after.start == atom.end or before.end == atom.start
    named = atom.core == "A" and before.core.islower() and not before.tail
    article = not glued and not named and not atom.tail and after is not NOTHING
    return ["a"] if article else ["_a"]


def _after_the(atoms: Sequence[Atom], index: int) -> list[str] | None:
    """ "MADE IN THE US": the country, though the text is in capitals and "us" a word."""
    core = atoms[index].core
    if core not in ("US", "IT") or neighbour(atoms, index - 1).core.lower() != "the":
        return None
    return spell(core)


def _title(atoms: Sequence[Atom], index: int) -> list[str] | None:
    atom, after = atoms[index], neighbour(atoms, index + 1)
    title = TITLES.get(atom.core)
    if title is None:
        return None
    named = after.core[:1].isupper() or atom.core in ("Jr", "Sr")
    dotted = atom.tail.startswith(".")
    always = atom.core in _ALWAYS_TITLES
    return [title] if (always and dotted) or (named and (always or dotted)) else None


def _saint_or_street(atoms: Sequence[Atom], index: int) -> list[str] | None:
    atom = atoms[index]
    names = SAINT_STREET.get(atom.core)
    if names is None:
        return None
    person, way = names
    before, after = neighbour(atoms, index - 1), neighbour(atoms, index + 1)
    follows_name = before.core[:1].isupper() or before.numeric
    addressed = neighbour(atoms, index - 2).numeric and before.core[:1].isupper()
    leads_name = after.core[:1].isupper() and "," not in atom.tail
    return [person if leads_name and not addressed else way if follows_name else person]


def _roman(atoms: Sequence[Atom], index: int) -> list[str] | None:
    atom, before = atoms[index], neighbour(atoms, index - 1)
    owned = atom.core.endswith("'s")
    core = atom.core.removesuffix("'s")
    if not core.isupper() or before.tail.strip(".") or not numbers.is_roman(core):
        return None
    words = _numeral(atoms, index, core)
    return words and [*words, *(("'s",) if owned else ())]


def _numeral(atoms: Sequence[Atom], index: int, core: str) -> list[str] | None:
    """An ordinal behind a ruler's name, a number behind the name of a part or of a product."""
    value = str(numbers.roman(core))
    before = neighbour(atoms, index - 1).core
    name, ruler = before.lower(), neighbour(atoms, index - 2).core.lower()
    capital = before[:1].isupper()
    if capital and (name in KINGS or ruler in RULERS):
        following = neighbour(atoms, index + 1)
        if core != "I" or atoms[index].tail or following is NOTHING:
            return ["the", *numbers.ordinal(value)]
    in_section = name in SECTIONS and (capital or len(core) > 1)
    if in_section and core not in ("C", "D", "L", "M"):
        return numbers.cardinal(value)
    counted = capital and len(core) > 1 and _SMALL_ROMAN.fullmatch(core) is not None
    return numbers.cardinal(value) if counted and not before.isupper() else None


def _homograph(atoms: Sequence[Atom], index: int) -> list[str] | None:
    """Words that a capital or an accent tells apart, as the lexicon names them."""
    core = atoms[index].core
    if core.lower() == "rezumay":
        return ["_resume"]
    if core != "Polish":
        return None
    after = neighbour(atoms, index + 1).core.lower()
    begins = index == 0 or neighbour(atoms, index - 1).tail.startswith((".", "!", "?"))
    return ["polish"] if begins and after in _POLISHED else ["_polish"]


def _state_or_way(atoms: Sequence[Atom], index: int) -> list[str] | None:
    """ "Springfield, IL" and "Sunset Blvd" without a full stop."""
    atom, before, after = atoms[index], neighbour(atoms, index - 1), neighbour(atoms, index + 1)
    if not before.core[:1].isupper() or before.core.isupper():
        return None
    if atom.core in _WAYS_ALONE and not before.tail:
        return WAYS[atom.core].split()
    behind_town = before.tail == "," and atom.core in STATES
    behind_town = behind_town and atom.core not in ("OK", "HI", "OH")
    ends = atom.tail != "" or after is NOTHING or after.text[:1].islower()
    return STATES[atom.core].split() if behind_town and ends else None


def _dotted(atoms: Sequence[Atom], index: int) -> list[str] | None:
    atom, after = atoms[index], neighbour(atoms, index + 1)
    full = DOTTED.get(atom.core)
    if full is None or not atom.tail.startswith("."):
        return None
    if atom.core in ("est", "Est") and after.kind == "date":
        return ["established"]
    if atom.core not in ALSO_WORDS or after.numeric:
        return [full]
    if atom.core in ("No", "no"):
        return [full] if any(map(str.isdigit, after.text)) else None
    capital = after.core[:1].isupper() and atom.core[0].isupper()
    goes_on = after.text[:1].islower() and atom.core not in ENDING_SENTENCES
    return [full] if capital or goes_on else None


def dot_belongs(atoms: Sequence[Atom], index: int, words: Sequence[str] | None) -> bool:
    """Whether the full stop behind an atom is part of an abbreviation rather than a break."""
    core = atoms[index].core
    if words is not None:
        known = core in TITLES or core in DOTTED
        return known or (len(core) == 2 and core != "US")
    return (
        "." in core
        or core in ("vs", "etc", "approx", "Vol", "vol")
        or (len(core) == 1 and core.isupper())
    )
