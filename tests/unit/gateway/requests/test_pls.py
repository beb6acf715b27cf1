"""Lexicons as clients write them, and what is refused."""

import json

import pytest

from gateway.errors import InvalidLexicon
from gateway.requests.lexicon import LexiconEntry
from gateway.requests.pls import MOST_ENTRIES, parse_json, parse_pls, to_ipa

NAMESPACE = "http://www.w3.org/2005/01/pronunciation-lexicon"


def pls(lexemes: str, alphabet: str = "ipa", head: str = "<?xml version='1.0'?>") -> bytes:
    return (
        f"{head}<lexicon version='1.0' xmlns='{NAMESPACE}' alphabet='{alphabet}'"
        f" xml:lang='en-GB'>{lexemes}</lexicon>"
    ).encode()


def lexeme(grapheme: str, reading: str) -> str:
    return f"<lexeme><grapheme>{grapheme}</grapheme>{reading}</lexeme>"


@pytest.mark.parametrize(
    ("lexemes", "entries"),
    [
        (lexeme("W3C", "<alias>World Wide Web Consortium</alias>"),
         [LexiconEntry("W3C", "World Wide Web Consortium")]),
        (lexeme("tide", "<phoneme>taɪd</phoneme>"), [LexiconEntry("tide", "", "taɪd")]),
        (lexeme("tide", '<phoneme alphabet="x-sampa">taId</phoneme>'),
         [LexiconEntry("tide", "", "taɪd")]),
        (lexeme("tide", '<phoneme alphabet="x-cmu-arpabet">T AY1 D</phoneme>'),
         [LexiconEntry("tide", "", "T AY1 D", "model")]),
        (lexeme("a", "<alias>one</alias><alias prefer='true'>two</alias>"),
         [LexiconEntry("a", "two")]),
        (lexeme("a", "<phoneme>ə</phoneme><alias>two</alias>"), [LexiconEntry("a", "", "ə")]),
        (lexeme("a</grapheme><grapheme>b", "<alias>c</alias><example>a b</example>"),
         [LexiconEntry("a", "c"), LexiconEntry("b", "c")]),
        ("<metadata><x xmlns='y'>z</x></metadata>" + lexeme("R&amp;B", "<alias>\n r  b\n</alias>"),
         [LexiconEntry("R&B", "r b")]),
    ],
)  # fmt: skip
def test_pls_is_read(lexemes: str, entries: list[LexiconEntry]) -> None:
    parsed = parse_pls(pls(lexemes))
    assert parsed.entries == entries
    assert parsed.language == "en-GB"


def test_json_is_read() -> None:
    body = {
        "name": "brands",
        "language": "en",
        "entries": [
            {"grapheme": "nginx", "alias": "engine x"},
            {"graphemes": ["a", "b"], "phoneme": "taId", "alphabet": "x-sampa"},
        ],
    }
    parsed = parse_json(json.dumps(body).encode())
    assert (parsed.name, parsed.language) == ("brands", "en")
    assert parsed.entries == [
        LexiconEntry("nginx", "engine x"),
        LexiconEntry("a", "", "taɪd"), LexiconEntry("b", "", "taɪd"),
    ]  # fmt: skip


BILLION_LAUGHS = (
    b"<!DOCTYPE x [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;'>]>"
    b"<lexicon><lexeme><grapheme>&b;</grapheme><alias>x</alias></lexeme></lexicon>"
)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (BILLION_LAUGHS, "document type"),
        (b"<!DOCTYPE x SYSTEM 'file:///etc/passwd'><lexicon/>", "document type"),
        (pls("&secret;"), "well-formed"),
        (b"<lexicon>", "well-formed"),
        (b"", "well-formed"),
        (b"<?xml version='1.0' encoding='runes'?><lexicon/>", "well-formed"),
        (b"<speak/>", "must be 'lexicon'"),
        (pls("<x>" * 40 + "</x>" * 40), "too deep"),
        (pls(""), "no entry"),
        (pls("<lexeme><grapheme>a</grapheme></lexeme>"), "neither"),
        (pls("<lexeme><alias>a</alias></lexeme>"), "needs a grapheme"),
        (pls(lexeme(" ", "<alias>a</alias>")), "needs a grapheme"),
        (pls(lexeme("a", "<alias> </alias>")), "an alias or a phoneme"),
        (pls(lexeme("a", "<phoneme>a</phoneme>"), alphabet="runes"), "alphabet must be"),
        (pls(lexeme("a", "<phoneme>£</phoneme>"), alphabet="x-sampa"), "not X-SAMPA"),
        (pls(lexeme("a" * 65, "<alias>a</alias>")), "at most 64"),
        (pls(lexeme("a b c d e", "<alias>a</alias>")), "8 words"),
        (pls(lexeme("a", f"<alias>{'b' * 201}</alias>")), "at most 200"),
        (pls(lexeme("a", "<alias>b</alias>") * (MOST_ENTRIES + 1)), "at most 2000"),
    ],
)
def test_what_is_no_lexicon_is_refused(document: bytes, why: str) -> None:
    with pytest.raises(InvalidLexicon, match=why):
        parse_pls(document)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"[]", "not as it should be"),
        (b"{", "not as it should be"),
        (b'{"entries": []}', "no entry"),
        (b'{"entries": [{"grapheme": "a", "alias": "b", "phoneme": "c"}]}', "not both"),
        (b'{"entries": [{"grapheme": "a", "sound": "b"}]}', "sound"),
        (b'{"entries":' + b"[" * 100_000, "not as it should be"),
    ],
)
def test_json_that_is_no_lexicon_is_refused(body: bytes, why: str) -> None:
    with pytest.raises(InvalidLexicon, match=why):
        parse_json(body)


@pytest.mark.parametrize(
    ("written", "ipa"),
    [
        ('t@"meIt@U', "təˈmeɪtəʊ"),
        ("dZVmp", "dʒʌmp"),
        ("fA:D@", "fɑːðə"),
        ('b3`d "r\\Ed', "bɝd ˈɹɛd"),
        ("bVtn=", "bʌtn\u0329"),
        ("Tr\\i: {nd", "θɹiː ænd"),
        ("ta£d", ""),
        ("", ""),
    ],
)
def test_symbols_are_those_of_the_ipa(written: str, ipa: str) -> None:
    assert to_ipa(written) == ipa
