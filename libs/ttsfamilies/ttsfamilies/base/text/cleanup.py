"""Reduce any Unicode token to the ASCII characters the normaliser reads."""

import html
import re
import unicodedata
from functools import lru_cache
from typing import Final

from ttsfamilies.base.text.heteronyms import ACCENTED
from ttsfamilies.base.text.rules import collection, listing, table

# Formulas that TeX or HTML would set, as they would be typed: `\frac{1}{2}` is "1/2".
_SIGNS: Final = table(
    """
    leq: ≤, le: ≤, geq: ≥, ge: ≥, neq: ≠, ne: ≠, times: ×, cdot: ×, div: ÷, pm: ±, approx: ≈,
    infty: ∞, sum: ∑, int: ∫, prod: ∏, partial: ∂, in: ∈, to: →, rightarrow: →, Rightarrow: ⇒,
    cup: ∪, cap: ∩, subset: ⊂, forall: ∀, exists: ∃, ll: ≪, gg: ≫, propto: ∝, degree: °, sqrt: √
    """
)
_LETTERS: Final = collection(
    """
    alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu pi rho sigma tau phi chi
    psi omega Gamma Delta Theta Lambda Pi Sigma Phi Psi Omega
    """
)
_PATH: Final = re.compile(r"[A-Za-z]:\\")
_FRACTION: Final = re.compile(r"\\[dt]?frac\{([^{}]{1,40})\}\{([^{}]{1,40})\}")
_BRACED: Final = re.compile(r"\^\{([^{}]{1,20})\}")
_COMMAND: Final = re.compile(r"\\([A-Za-z]{2,12})")
_BRACES: Final = str.maketrans("{}", "  ")
_RAISED: Final = re.compile(r"<sup>([^<>]{1,4})</sup>", re.IGNORECASE)


def typed(token: str) -> str:
    """A token as it would be typed; what is no formula is left as it is."""
    token = _RAISED.sub(_raised, token)
    if "\\" not in token or _PATH.match(token):
        return token
    token = _BRACED.sub(r"^\1", _FRACTION.sub(_fraction, token))
    found = _COMMAND.sub(_command, token)
    return found if found == token else found.translate(_BRACES)


def _fraction(match: re.Match[str]) -> str:
    top, bottom = match[1], match[2]
    return f"{top}/{bottom}" if top.isdigit() and bottom.isdigit() else f"{top} over {bottom}"


def _command(match: re.Match[str]) -> str:
    """A sign, or a letter's name."""
    name = match[1]
    return f" {_SIGNS.get(name, name)} " if name in _SIGNS or name in _LETTERS else match[0]


def _raised(match: re.Match[str]) -> str:
    """A power; what is raised of an ordinal is its ending."""
    text = match[1]
    return text if text.isalpha() and len(text) > 1 else f"^{text}"


_SAID = table(
    """
    ×: times, ÷: divided by, ±: plus or minus, √: square root of, ≈: about, ≠: is not equal to,
    ∞: infinity, ∑: sum of, ≤: less than or equal to, ≥: greater than or equal to, ∆: delta,
    →: to, ⇒: implies, ←: from, ↔: to and from, °: degrees, ‰: per mille, ∂: partial,
    ∫: integral of, ∏: product of, ∈: in, ∉: not in, ∅: the empty set, ∩: intersection, ∪: union,
    ⊂: subset of, ∀: for all, ∃: there exists, ∧: and, ∨: or, ¬: not, ∝: is proportional to,
    ≡: is equivalent to, ≪: is much less than, ≫: is much greater than, \u03a9: ohms,
    \u2126: ohms, ©: copyright, №: number, §: section
    """
)
_NAMED = {
    **dict.fromkeys("‘’‚‛′ʼʹ`´＇", "'"),
    **dict.fromkeys("“”„‟″«»‹›＂", '"'),
    **dict.fromkeys("‐‑‒–−﹣－", "-"),
    **dict.fromkeys("—―⸺⸻", " - "),
    **dict.fromkeys("•‣◦▪●·∙⁃", " - "),
    **dict.fromkeys("，、､", ","),
    **dict.fromkeys("。｡", "."),
    **{sign: f" {name} " for sign, name in _SAID.items()},
    "μ": " micro",
    **dict.fromkeys("★⭐", "★"),
    **{sign: sign for sign in "☆€£¥₹¢₩₿₽₺₪₫₱฿₦₴"},
    **dict.fromkeys("™®¶\u00ad\u2060\ufeff", ""),
    **table(
        """
        ß: ss, æ: ae, Æ: Ae, œ: oe, Œ: Oe, ø: o, Ø: O, ł: l, Ł: L, đ: d, Đ: D, ð: th, Ð: Th, þ: th,
        Þ: Th, ı: i, ǝ: e, ə: e, ŋ: ng
        """
    ),
}
_EMOTICONS = collection(
    """
    :) :( :D :P :p :o :O :| :/ ;) :-) :-( :-D :-P :-/ ;-) ;-D ;P :') :'( =) =( =D <3 </3 xD XD
    :3 ^^ ^_^ -_- o_O O_o T_T ¯\\_(ツ)_/¯
    """
)
_GREEK_LATIN = (
    listing("a v g d e z i th i k l m n x o p r s s t y f ch ps o"),
    "αβγδεζηθικλμνξοπρςστυφχψω",
)
_CYRILLIC_LATIN = (
    listing("a b v g d e zh z i y k l m n o p r s t u f kh ts ch sh shch . y . e yu ya"),
    "абвгдежзийклмнопрстуфхцчшщъыьэюя",
)
# A lone mu is a sign, see above.
_GREEK_NAMES = {
    letter: unicodedata.name(letter).split()[-1].lower()
    for letter in _GREEK_LATIN[1].replace("μ", "")
} | {"λ": "lambda", "ξ": "xai"}
_LATIN = {
    letter: "" if latin == "." else latin
    for latins, letters in (_GREEK_LATIN, _CYRILLIC_LATIN)
    for latin, letter in zip(latins, letters, strict=True)
} | {"ё": "yo", "і": "i", "ї": "yi", "є": "ye", "ґ": "g", "ў": "u", "ј": "y", "љ": "ly", "њ": "ny"}
_SUPERSCRIPTS = re.compile("(?P<sign>[⁺⁻]?)(?P<power>[⁰¹²³⁴⁵⁶⁷⁸⁹]+|ⁿ)")
# With an accent it is the paper, without one it may be the verb.
_RESUME = re.compile("r[eé]sumé", re.IGNORECASE)
_ACCENTED = re.compile(rf"(?<!\w)(?:{'|'.join(ACCENTED)})(?!\w)", re.IGNORECASE)
# A dot between the parts of a formula, where lists have it in front of items.
_INNER_DOT = re.compile(r"(?<=[A-Za-z0-9)])[·∙](?=\d?[A-Z])")
# Typed for the sign of degrees, which looks the same.
_ORDINAL_DEGREES = re.compile(r"(?<=\d)º")
_LOWERED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹ⁿ", "0123456789n")


def _unaccented(match: re.Match[str]) -> str:
    read = ACCENTED[match[0].lower()]
    return read.capitalize() if match[0].istitle() else read


def _lowered(match: re.Match[str]) -> str:
    """A raised number as it is typed: "10⁻³" is "10^-3"."""
    sign = "-" if match["sign"] == "⁻" else ""
    return f"^{sign}{match['power'].translate(_LOWERED)}"


def _letter(char: str) -> str:
    """ASCII for one character, or nothing."""
    if char in _NAMED:
        return _NAMED[char]
    latin = _LATIN.get(char.lower())
    if latin is not None:
        return latin if char.islower() else latin.capitalize()
    decomposed = unicodedata.normalize("NFKD", char)
    if "⁄" in decomposed:
        return " " + decomposed.replace("⁄", "/")
    if decomposed != char:
        return "".join(c if c.isascii() else _base(c) for c in decomposed)
    digit = unicodedata.digit(char, None)
    return "" if digit is None else str(digit)


def _base(char: str) -> str:
    return _NAMED.get(char) or _LATIN.get(char.lower()) or ""


@lru_cache(maxsize=20_000)
def clean(token: str) -> str:
    """ASCII (and € £ ¥ ₹ ¢) for a token without white space; it may come out as several, or none.

    Accents go, Greek and Cyrillic are transliterated, symbols are named, emoji and all other
    scripts are dropped.
    """
    if token in _EMOTICONS:
        return ""
    if "&" in token and ";" in token:
        token = html.unescape(token)
    if "\\" in token or "<sup>" in token:
        token = typed(token)
    if token.isascii():
        return token if token.isprintable() else "".join(c for c in token if c.isprintable())
    if len(token) == 1 and token.lower() in _GREEK_NAMES:
        return _GREEK_NAMES[token.lower()]
    token = _ACCENTED.sub(_unaccented, _RESUME.sub("rezumay", token))
    token = _INNER_DOT.sub(".", token)
    token = _ORDINAL_DEGREES.sub("°", _SUPERSCRIPTS.sub(_lowered, token))
    return "".join(c if c.isascii() else _letter(c) for c in token if c.isprintable())
