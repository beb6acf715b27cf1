"""What a voice is told of a text: characters, or phones by eSpeak or in its spelling."""

import stat
from pathlib import Path

import pytest

from ttscommon.wire.errors import AntiphonError, NothingToSay
from ttsfamilies.base.text.frontend import Utterance, Word
from ttsfamilies.base.text.ipa import Phone
from ttsfamilies.piper.phones import Espeak, Sentence, characters, ids_of, spelt
from ttsfamilies.piper.spelling import symbols_of

TABLE = {symbol: [at] for at, symbol in enumerate("_^$ abcdefghijklmnopqrstuvwxyz,.ˈ")}


def program(folder: Path, body: str) -> str:
    """A stand-in for eSpeak."""
    path = folder / "espeak"
    path.write_text(f"#!/bin/sh\n{body}\n", "utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def said(sentence: Sentence) -> dict[str, str]:
    return {w.text: "".join(sentence.symbols[w.start : w.end]) for w in sentence.words}


def test_characters_are_taken_apart_and_belong_to_their_words() -> None:
    sentence = characters("Où va?")
    assert "".join(sentence.symbols) == "Ou\u0300 va?"
    assert said(sentence) == {"Où": "Ou\u0300", "va?": "va?"}
    with pytest.raises(NothingToSay):
        characters("... !")


def test_ids_have_a_blank_behind_each_and_unknown_symbols_are_left_out() -> None:
    ((ids, words),) = ids_of(characters("a# B"), TABLE, 100)
    a, b, space = TABLE["a"][0], TABLE["b"][0], TABLE[" "][0]
    assert ids == (1, 0, a, 0, space, 0, b, 0, 2)
    assert [ids[w.start : w.end] for w in words] == [(a, 0), (b, 0)]


def test_a_long_sentence_is_cut_between_words_and_loses_none() -> None:
    text = "some words " * 20
    parts = list(ids_of(characters(text), TABLE, 40))
    assert all(len(ids) <= 40 for ids, _ in parts)
    assert [w.text for _, words in parts for w in words] == text.split()
    inner = [one for ids, _ in parts for one in ids if one > 2]
    assert inner == [TABLE[c][0] for c in " ".join(text.split())]
    assert sum(len(ids) for ids, _ in ids_of(characters("x" * 90), TABLE, 40)) > 180


def test_espeak_is_asked_clause_by_clause_and_marks_are_kept(tmp_path: Path) -> None:
    espeak = Espeak("de", program(tmp_path, 'tr "A-Z" "a-z"'))
    sentence = espeak("Ja, Nein so. Gut")
    assert "".join(sentence.symbols) == "ja, nein so. gut"
    assert said(sentence) == {"Ja,": "ja", "Nein": "nein", "so.": "so", "Gut": "gut"}


def test_words_that_espeak_joins_share_what_is_said(tmp_path: Path) -> None:
    espeak = Espeak("en-us", program(tmp_path, "cat > /dev/null; echo '(en)abcd(de)'"))
    sentence = espeak("of the")
    assert "".join(said(sentence).values()) == "abcd"
    assert [w.text for w in sentence.words] == ["of", "the"]


@pytest.mark.parametrize("body", ["exit 3", "kill -9 $$"])
def test_a_program_that_fails_fails_the_request(tmp_path: Path, body: str) -> None:
    with pytest.raises(AntiphonError, match="gives no phones"):
        Espeak("de", program(tmp_path, body))("Guten Tag")


def test_a_text_is_no_option_of_the_program(tmp_path: Path) -> None:
    espeak = Espeak("de", program(tmp_path, 'cat > /dev/null; echo "$# $1"'))
    assert said(espeak("--version oder"))["--version"].startswith("5")


def test_the_frontends_phones_are_spelt_as_espeak_does() -> None:
    phones = (
        Phone("pau", -1, False),
        *(Phone(one, 0, at == 0) for at, one in enumerate(("ch", "iy1", "z", "iy0"))),
        Phone("pau", -1, False),
        *(Phone(one, 1, at == 0) for at, one in enumerate(("hh", "er1", "er0"))),
        Phone("pau", -1, False),
    )
    words = (Word("cheesy,", 0, 0), Word("hurrer", 0, 0))
    sentence = spelt(Utterance(phones, words, (",", "")))
    assert "".join(sentence.symbols) == "tʃˈiːzi, hˈɜːɹɚ."
    assert said(sentence) == {"cheesy,": "tʃˈiːzi", "hurrer": "hˈɜːɹɚ"}
    assert symbols_of("ow1") == "ˈoʊ"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([("the", "dh ax0"), ("kettle", "k eh1 dx ax0 l")], "ðə kˈɛɾəl."),
        ([("he", "hh iy0"), ("begins", "b ih0 g ih1 n z")], "hiː bɪɡˈɪnz."),
        ([("after", "ae1 f t er0"), ("another", "ax0 n ah1 dh er0")], "ˈæftɚɹ ɐnˈʌðɚ."),
        ([("was", "w ah0 z"), ("the", "dh iy0"), ("end", "eh1 n d")], "wʌzðɪ ˈɛnd."),
        ([("for", "f ao0 r"), ("a", "ac0"), ("minute", "m ih1 n ax0 t")], "fɚɹə mˈɪnɪt."),
        ([("off", "ao1 f"), ("salt", "s ao1 l t"), ("call", "k ao1 l")], "ˈɔf sˈɔlt kˈɔːl."),
        ([("return", "r ax0 t er1 n"), ("reader", "r iy1 d er0")], "ɹᵻtˈɜːn ɹˈiːdɚ."),
    ],
)
def test_sounds_are_weakened_and_little_words_joined_as_espeak_does(
    said: list[tuple[str, str]], expected: str
) -> None:
    phones = [
        Phone(phone, word, at == 0)
        for word, (_, each) in enumerate(said)
        for at, phone in enumerate(each.split())
    ]
    silence = Phone("pau", -1, False)
    words = tuple(Word(written, 0, 0) for written, _ in said)
    sentence = spelt(Utterance((silence, *phones, silence), words, ("",)))
    assert "".join(sentence.symbols) == expected
    spans = [sentence.symbols[w.start : w.end] for w in sentence.words]
    assert ["".join(span) for span in spans] == ["".join(span).strip(" .") for span in spans]
    assert all(spans)
