"""flite's knowledge of pronunciation, for the voice's lexicon (voicetrain.vesper.lexicon).

Three things are carried over from flite (Carnegie Mellon University, BSD-like licence): the entries
of cmulex, the letter-to-phone decision trees that cover every word that no lexicon lists, and the
small tagger that tells homographs apart ("a record", "to record"). The words of WordNet (Princeton,
permissive licence) are added without phones: they tell the normaliser which capitals are words.
"""

import ctypes
import re
from collections import Counter
from pathlib import Path
from typing import Any

FORMAT = 1
SUPPLEMENT = Path(__file__).parent / "data" / "supplement.txt"
_END_OF_ENTRY = 255
_END_OF_TREE = 255
_EPSILON = "epsilon"
_CART_OPERATIONS = ("is", "in", "less", "greater", "matches", "equals")


class _LetterRules(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("letter_index", ctypes.POINTER(ctypes.c_ushort)),
        ("nodes", ctypes.POINTER(ctypes.c_ubyte)),
        ("phone_table", ctypes.POINTER(ctypes.c_char_p)),
        ("window", ctypes.c_int),
        ("extra_features", ctypes.c_int),
        ("letter_table", ctypes.POINTER(ctypes.c_char_p)),
    )


class _Lexicon(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("entry_count", ctypes.c_int),
        ("data", ctypes.POINTER(ctypes.c_ubyte)),
        ("byte_count", ctypes.c_int),
        ("phone_table", ctypes.POINTER(ctypes.c_char_p)),
        ("letter_rules", ctypes.POINTER(_LetterRules)),
        ("syllable_boundary", ctypes.c_void_p),
        ("letter_function", ctypes.c_void_p),
        ("addenda", ctypes.POINTER(ctypes.POINTER(ctypes.c_char_p))),
        ("phone_codes", ctypes.POINTER(ctypes.c_char_p)),
        ("word_codes", ctypes.POINTER(ctypes.c_char_p)),
        ("postlexical", ctypes.c_void_p),
        ("added", ctypes.c_void_p),
    )


class _CartNode(ctypes.Structure):
    _fields_ = (
        ("feature", ctypes.c_ubyte),
        ("operation", ctypes.c_ubyte),
        ("no", ctypes.c_ushort),
        ("value", ctypes.c_void_p),
    )


class _Cart(ctypes.Structure):
    _fields_ = (
        ("nodes", ctypes.POINTER(_CartNode)),
        ("features", ctypes.POINTER(ctypes.c_char_p)),
    )


class Teacher:
    """The shared libraries of flite 2.x. Raises OSError when they are not installed."""

    def __init__(self) -> None:
        self.core = ctypes.CDLL("libflite.so.1", mode=ctypes.RTLD_GLOBAL)
        self.english = ctypes.CDLL("libflite_usenglish.so.1", mode=ctypes.RTLD_GLOBAL)
        cmulex = ctypes.CDLL("libflite_cmulex.so.1", mode=ctypes.RTLD_GLOBAL)
        cmulex.cmu_lex_init.restype = ctypes.POINTER(_Lexicon)
        self.lexicon: _Lexicon = cmulex.cmu_lex_init()[0]
        self.core.val_string.restype = ctypes.c_char_p
        self.core.val_string.argtypes = [ctypes.c_void_p]


def _strings(table: Any) -> list[str]:
    """A NULL-terminated array of C strings."""
    values: list[str] = []
    while table[len(values)] is not None:
        values.append(table[len(values)].decode("ascii"))
    return values


def _with_stress(phones: list[str], vowels: frozenset[str]) -> list[str]:
    """flite leaves the digit out where a syllable is unstressed by default."""
    return [phone + "0" if phone in vowels else phone for phone in phones]


def lexicon_entries(lexicon: _Lexicon) -> list[tuple[str, str, list[str]]]:
    """All (word, tag, phones) of the compiled lexicon, in its own order.

    An entry is laid out around a 255 byte: the packed word after it up to a 0, the packed phones
    before it, backwards, down to a 0.
    """
    data = bytes(lexicon.data[: lexicon.byte_count])
    phone_names = _strings(lexicon.phone_table)
    entries = []
    for start in (i + 1 for i, byte in enumerate(data) if byte == _END_OF_ENTRY):
        end = data.find(0, start)
        word = b"".join(lexicon.word_codes[code] for code in data[start:end]).decode("ascii")
        phones: list[str] = []
        position = start - 2
        while position >= 0 and data[position]:
            phones += [phone_names[code] for code in lexicon.phone_codes[data[position]]]
            position -= 1
        if word:
            entries.append((word[1:], word[0], phones))
    return entries


def addenda(lexicon: _Lexicon) -> list[tuple[str, str, list[str]]]:
    """The hand-written entries (word, tag, phones) that go before all others."""
    entries = []
    index = 0
    while lexicon.addenda[index]:
        name, *phones = _strings(lexicon.addenda[index])
        entries.append((name[1:], name[0], phones))
        index += 1
    return [entry for entry in entries if entry[2]]


def letter_trees(rules: _LetterRules) -> dict[str, Any]:
    """The decision trees: roots per letter, flat nodes (feature, letter, yes, no), outputs.

    A leaf has feature 255 and its output's number in place of the letter.
    """
    roots = [rules.letter_index[i] for i in range(26)]
    nodes: list[int] = []
    pending = set(roots)
    count = 0
    while count <= max(pending):
        raw = bytes(rules.nodes[count * 6 : count * 6 + 6])
        yes, no = int.from_bytes(raw[2:4], "little"), int.from_bytes(raw[4:6], "little")
        if raw[0] == _END_OF_TREE:
            nodes += [raw[0], raw[1], 0, 0]
        else:
            nodes += [raw[0], raw[1], yes, no]
            pending |= {yes, no}
        count += 1
    outputs = ["" if name == _EPSILON else name for name in _strings(rules.phone_table)]
    return {
        "window": rules.window,
        "roots": roots,
        "nodes": nodes,
        "outputs": [output.replace("-", " ") for output in outputs],
    }


def tagger(teacher: Teacher) -> list[list[Any]]:
    """The part-of-speech tree: [feature, value, no] per question, [tag] per leaf.

    The branch for "yes" is always the next node.
    """
    cart = _Cart.in_dll(teacher.english, "us_pos_cart")
    features = _strings(cart.features)
    nodes: list[list[Any]] = []
    last = 0
    while len(nodes) <= last:
        node = cart.nodes[len(nodes)]
        value = teacher.core.val_string(node.value).decode("ascii")
        if node.operation == _END_OF_TREE:
            nodes.append([value])
            continue
        if _CART_OPERATIONS[node.operation] != "is":
            raise ValueError(f"unexpected question {_CART_OPERATIONS[node.operation]}")
        last = max(last, node.no, len(nodes) + 1)
        nodes.append([features[node.feature], value, node.no])
    return nodes


def function_words(teacher: Teacher) -> dict[str, str]:
    """Closed-class words and their tag, as the tagger's "gpos" feature wants them."""
    rows = ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p))
    table = ctypes.cast(ctypes.addressof(ctypes.c_char.in_dll(teacher.english, "us_gpos")), rows)
    words: dict[str, str] = {}
    row = 0
    while table[row]:
        names: list[str] = []
        while table[row][len(names)]:
            names.append(teacher.core.val_string(table[row][len(names)]).decode("ascii"))
        for word in names[1:]:
            words.setdefault(word, names[0])
        row += 1
    return words


def wordnet_words(folder: Path) -> set[str]:
    """Lower-case words of WordNet's synsets and, when seen twice or more, of its glosses.

    Words in capitals or without a vowel are left out: those are spelled.
    """
    words: set[str] = set()
    in_glosses: Counter[str] = Counter()
    for kind in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{kind}").read_text("utf-8").splitlines():
            if line.startswith(" "):
                continue
            fields, _, gloss = line.partition("|")
            parts = fields.split(" ")
            lemmas = parts[4 : 4 + 2 * int(parts[3], 16) : 2]
            words.update(w.lower() for w in lemmas if re.fullmatch(r"[A-Z]?[a-z]+", w))
            in_glosses.update(re.findall(r"\b[a-z]{3,}\b", gloss))
    seen = {word for word, count in in_glosses.items() if count > 1}
    return {word for word in words | seen if len(word) > 1 and re.search("[aeiouy]", word)}


def supplement(path: Path) -> dict[str, str]:
    """Hand-written entries: word to phones."""
    lines = path.read_text("utf-8").splitlines()
    entries = (line.partition(" ") for line in lines if line and not line.startswith("#"))
    return {word: phones for word, _, phones in entries}


def build(teacher: Teacher, wordnet: Path) -> dict[str, Any]:
    """Everything the frontend loads, as one JSON-ready mapping."""
    names = _strings(teacher.lexicon.phone_table)[1:]
    vowels = frozenset(name[:-1] for name in names if name[-1].isdigit())
    words: dict[str, dict[str, str]] = {}
    for word, tag, phones in lexicon_entries(teacher.lexicon):
        words.setdefault(word, {})[tag] = " ".join(_with_stress(phones, vowels))
    for word, tag, phones in addenda(teacher.lexicon):
        spoken = " ".join(_with_stress(phones, vowels))
        words[word] = {**words.get(word, {}), tag: spoken, "0": spoken}
    words |= {word: {"0": phones} for word, phones in supplement(SUPPLEMENT).items()}
    homographs = {word: tags for word, tags in words.items() if len(set(tags.values())) > 1}
    single = {word: next(iter(tags.values())) for word, tags in words.items()}
    for word in homographs:
        del single[word]
    return {
        "format": FORMAT,
        "words": dict(sorted(single.items())),
        "homographs": dict(sorted(homographs.items())),
        "known": " ".join(sorted(wordnet_words(wordnet) - words.keys())),
        "letters": letter_trees(teacher.lexicon.letter_rules[0]),
        "tagger": tagger(teacher),
        "function_words": function_words(teacher),
    }
