"""The teacher's texts: WordNet's prose and everyday sentences, less the held-out sets.

WordNet (Princeton, permissive licence) gives the breadth of words; the everyday sentences of
`voicetrain.corpus` give the forms an application speaks.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib import resources
from pathlib import Path

_SLOT = re.compile(r"\{(\w+)\}")
_SECTION = re.compile(r"^\[(\w+)\]$")
WORDNET = Path("/usr/share/wordnet")
_ALLOWED = re.compile(r"[A-Za-z0-9 ,.;:!?'-]+")
_WORD = re.compile(r"[a-z']+")
_UNSUITED = re.compile(r"vagina|penis|sex|coit|suicid|rape|nazi|goering|intercourse|genital", re.I)
GLOSS_SHARE = 0.2
DIGIT_SHARE = 0.3


def normal_form(sentence: str) -> str:
    """Lower-case words only: the form in which sentences are compared."""
    return " ".join(_WORD.findall(sentence.lower()))


def held_out(name: str) -> list[str]:
    """The evaluation set `easy` or `hard`, one sentence a line."""
    text = resources.files("voicetrain").joinpath("data", f"{name}.txt").read_text("utf-8")
    return [line for line in text.splitlines() if line]


def _clean(raw: str) -> str | None:
    text = re.sub(r"\s+", " ", raw).replace("``", '"').replace("''", '"').strip("\"'- ")
    text = re.sub(r'["()]', "", text).strip()
    words = len(text.split())
    capitals = sum(character.isupper() for character in text)
    if not (3 <= words <= 20 and 12 <= len(text) <= 115 and capitals < 0.15 * len(text)):
        return None
    if "--" in text or ".." in text or not _ALLOWED.fullmatch(text):
        return None
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")


def wordnet_sentences(generator: random.Random, root: Path = WORDNET) -> list[str]:
    """All examples and a share of the definitions, cleaned, without doubles, shuffled.

    Raises FileNotFoundError when WordNet's database is not installed.
    """
    found: set[str] = set()
    for part in ("adj", "adv", "noun", "verb"):
        for line in (root / f"data.{part}").read_text("latin-1").splitlines():
            _, bar, gloss = line.partition("|")
            if not bar:
                continue
            candidates = re.findall(r'"([^"]+)"', gloss)
            if generator.random() < GLOSS_SHARE:
                candidates.append(gloss.split(";")[0])
            for candidate in candidates:
                sentence = _clean(candidate)
                if sentence is None:
                    continue
                if re.search(r"\d", sentence) and generator.random() > DIGIT_SHARE:
                    continue
                found.add(sentence)
    sentences = sorted(found)
    generator.shuffle(sentences)
    return sentences


def choose_hard(count: int = 100, seed: int = 7) -> list[str]:
    """The rule that made data/hard.txt: examples whose rarest word is seen at most 3 times."""
    sentences = wordnet_sentences(random.Random(seed))
    frequency = Counter(word for s in sentences for word in _WORD.findall(s.lower()))
    rare = [
        sentence
        for sentence in sentences
        if 6 <= len(sentence.split()) <= 12
        and not re.search(r"[\d;:]", sentence)
        and not _UNSUITED.search(sentence)
        and min(frequency[word] for word in _WORD.findall(sentence.lower())) <= 3
    ]
    return rare[:count]


def _joined(sentences: list[str], generator: random.Random) -> Iterator[str]:
    """Long sentences: two short ones bound together."""
    short = [s for s in sentences if len(s) < 50]
    for first, second in zip(short[::2], short[1::2], strict=False):
        link = generator.choice((", and ", ", but ", "; ", ", because ", ", so ", ": ", ". "))
        tail = second if link == ". " else second[0].lower() + second[1:]
        yield first.rstrip(".!?") + link + tail


def _fragments(sentences: list[str], generator: random.Random) -> Iterator[str]:
    """What a stream of text begins with: clauses cut off anywhere, and single words."""
    for sentence in sentences:
        words = sentence.rstrip(".!?").split()
        length = generator.choice((1, 1, 2, 3, 4, 5))
        start = generator.randrange(max(1, len(words) - length))
        yield " ".join(words[start : start + length]).strip(",;:-' ")


def contaminated(sentences: Iterable[str], evaluation: Iterable[str]) -> list[str]:
    """The sentences that contain a held-out one, or are contained in one when 4 words or longer."""
    targets = [f" {normal_form(sentence)} " for sentence in evaluation]
    everything = "|".join(targets)
    bad = []
    for sentence in sentences:
        form = f" {normal_form(sentence)} "
        within = form.count(" ") >= 5 and form in everything
        if within or any(target in form for target in targets):
            bad.append(sentence)
    return bad


def training_text(count: int, seed: int) -> list[str]:
    """`count` sentences to speak, mixed, shuffled, none of them held out."""
    generator = random.Random(seed)
    prose = wordnet_sentences(generator)
    everyday = everyday_sentences(count * 30 // 100, generator)
    joined = list(_joined(prose[-count // 4 :], generator))[: count * 8 // 100]
    fragments = [f for f in _fragments(prose[-count // 8 :], generator) if f][: count * 6 // 100]
    chosen = [re.sub(r"\.\.$", ".", s) for s in (*everyday, *joined, *fragments)]
    chosen += prose[: count + 400 - len(chosen)]
    bad = set(contaminated(chosen, [*held_out("easy"), *held_out("hard")]))
    chosen = [sentence for sentence in dict.fromkeys(chosen) if sentence not in bad][:count]
    generator.shuffle(chosen)
    return chosen


def _tables() -> dict[str, list[str]]:
    """The word lists and templates of data/everyday.txt by section."""
    text = resources.files("voicetrain").joinpath("data", "everyday.txt").read_text("utf-8")
    tables: dict[str, list[str]] = {}
    section = ""
    for line in text.splitlines():
        if match := _SECTION.match(line):
            section = match.group(1)
            tables[section] = []
        elif line:
            separator = None if section == "template" else "|"
            parts = [line] if separator is None else line.split(separator)
            tables[section] += [part.strip() for part in parts]
    return tables


def _number(r: random.Random) -> str:
    return str(r.choice((r.randrange(2, 20), r.randrange(20, 100), r.randrange(100, 1000))))


def _large(r: random.Random) -> str:
    value = r.choice((r.randrange(1000, 10_000), r.randrange(10_000, 10_000_000)))
    return f"{value:,}"


def _clock(r: random.Random) -> str:
    hour, minute = r.randrange(1, 13), r.choice((0, 5, 10, 15, 20, 25, 30, 40, 45, 50, 55))
    if minute == 0:
        return r.choice((f"{hour} o'clock", f"{hour} p.m.", f"{hour} a.m."))
    return f"{hour}:{minute:02d}" + r.choice(("", "", " a.m.", " p.m."))


def _money(r: random.Random) -> str:
    whole = r.choice((r.randrange(1, 20), r.randrange(20, 1000), r.randrange(1, 60) * 100))
    return f"${whole:,}" + r.choice(("", "", f".{r.randrange(1, 100):02d}"))


def _ordinal(r: random.Random) -> str:
    value = r.randrange(1, 32)
    teen = 10 < value < 14
    return f"{value}" + ("th" if teen else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th"))


def _decimal(r: random.Random) -> str:
    return f"{r.randrange(0, 100)}.{r.randrange(1, 10)}"


def _year(r: random.Random) -> str:
    return str(r.choice((r.randrange(1700, 2000), r.randrange(2000, 2031))))


def _digits(r: random.Random) -> str:
    spoken = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    groups = [" ".join(r.choice(spoken) for _ in range(n)) for n in (3, r.choice((3, 4)))]
    return ", ".join(groups)


def _street_number(r: random.Random) -> str:
    return str(r.randrange(1, 400))


_NUMBERS: dict[str, Callable[[random.Random], str]] = {
    "number": _number,
    "large": _large,
    "clock": _clock,
    "money": _money,
    "ordinal": _ordinal,
    "decimal": _decimal,
    "year": _year,
    "digits": _digits,
    "house": _street_number,
}


def _fill(template: str, tables: dict[str, list[str]], r: random.Random) -> str:
    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name in _NUMBERS:
            return _NUMBERS[name](r)
        return _fill(r.choice(tables[name]), tables, r)

    return _SLOT.sub(value, template)


def everyday_sentences(count: int, generator: random.Random) -> list[str]:
    """`count` different sentences. Raises ValueError when the grammar cannot give as many."""
    tables = _tables()
    templates = tables["template"]
    found: dict[str, None] = {}
    for attempt in range(count * 20):
        text = _fill(templates[attempt % len(templates)], tables, generator)
        found[text[0].upper() + text[1:]] = None
        if len(found) == count:
            return list(found)
    raise ValueError(f"the grammar gave only {len(found)} of {count} sentences")
