"""SSML's kinds: each says its text as the kind wants, or gives it back."""

import pytest

from ttscommon.wire.pieces import KINDS, Phones
from ttsfamilies.base.text.frontend import EnglishFrontend, Utterance
from ttsfamilies.base.text.reader import Reader
from ttsfamilies.base.text.sayas import _KINDS, say_as


def _said(frontend: EnglishFrontend, text: str, kind: str, form: str = "") -> str:
    pieces = [Phones(text, "", optional=True, kind=kind, form=form)]
    (found,) = Reader(frontend.phones).read(pieces, final=True)
    assert isinstance(found, Utterance)
    return found.words[0].spoken


@pytest.mark.parametrize(
    ("text", "kind", "form", "said"),
    [
        ("ABC-1", "characters", "", "a b c dash one"),
        ("may", "spell-out", "", "m a y"),
        ("a@b.c", "verbatim", "", "a at b dot c"),
        ("é", "characters", "", "e"),
        ("1984", "digits", "", "one nine eight four"),
        ("12-34", "digits", "", "one two three four"),
        ("1984", "cardinal", "", "one thousand nine hundred eighty four"),
        ("1,234.05", "cardinal", "", "one thousand two hundred thirty four point zero five"),
        ("-7", "number", "", "minus seven"),
        ("XIV", "cardinal", "", "fourteen"),
        ("1984", "number", "digits", "one nine eight four"),
        ("21", "ordinal", "", "twenty first"),
        ("3rd", "ordinal", "", "third"),
        ("XIV", "ordinal", "", "fourteenth"),
        ("3/20", "fraction", "", "three twentieths"),
        ("2+1/2", "fraction", "", "two and one half"),
        ("2 3/4", "fraction", "", "two and three quarters"),
        ("3/4/2024", "date", "dmy", "april third twenty twenty four"),
        ("3/4/2024", "date", "mdy", "march fourth twenty twenty four"),
        ("2024-04-03", "date", "ymd", "april third twenty twenty four"),
        ("20240403", "date", "yyyymmdd", "april third twenty twenty four"),
        ("3.4.99", "date", "dmy", "april third nineteen ninety nine"),
        ("4/2024", "date", "my", "april twenty twenty four"),
        ("4-3", "date", "md", "april third"),
        ("2024", "date", "y", "twenty twenty four"),
        ("14:30", "time", "hms24", "fourteen thirty"),
        ("2:30pm", "time", "hms12", "two thirty p m"),
        ("14:30", "time", "hms12", "two thirty p m"),
        ("1'21\"", "time", "", "one minute and twenty one seconds"),
        ("+1 800 555", "telephone", "", "plus one eight zero zero five five five"),
        ("020 79 x12", "telephone", "", "zero two zero seven nine extension one two"),
        ("42 USD", "currency", "", "forty two dollars"),
        ("EUR 5.20", "currency", "", "five euros and twenty cents"),
        ("42", "currency", "GBP", "forty two pounds"),
        ("$5", "currency", "", "five dollars"),
        ("10 km", "unit", "", "ten kilometers"),
        ("darn", "expletive", "", "bleep"),
        # What is none of its kind is read as any text.
        ("ten", "cardinal", "", "ten"),
        ("soon", "date", "dmy", "soon"),
        ("45:99", "time", "hms24", "forty five to ninety nine"),
        ("half", "fraction", "", "half"),
        ("99/99/24", "date", "dmy", "ninety nine slash ninety nine slash twenty four"),
    ],
)
def test_a_kind_is_said(
    frontend: EnglishFrontend, text: str, kind: str, form: str, said: str
) -> None:
    assert _said(frontend, text, kind, form) == said


def test_every_kind_that_clients_may_ask_for_is_known() -> None:
    assert frozenset(_KINDS) == KINDS


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("text", ["", " ", "-", "9" * 5000, "/" * 300, "1/0", "\u0663", "٣/٤", "²"])
def test_no_text_is_too_strange(kind: str, text: str) -> None:
    for form in ("", "dmy", "x" * 100, "yyyymmdd"):
        words = say_as(text, kind, form, str.split)
        assert words is None or all(len(word) <= len(text) + 20 for word in words)
