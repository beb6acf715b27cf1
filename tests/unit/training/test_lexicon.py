import ctypes.util
from pathlib import Path

import pytest

from ttsfamilies.base.text.ipa import SYMBOL_IDS
from voicetrain import lexicon

needs_teacher = pytest.mark.skipif(
    ctypes.util.find_library("flite_cmulex") is None, reason="flite is not installed"
)


@needs_teacher
def test_entries_letters_and_tags_come_out_of_the_teacher() -> None:
    teacher = lexicon.Teacher()
    entries = {
        (word, tag): " ".join(phones)
        for word, tag, phones in lexicon.lexicon_entries(teacher.lexicon)
    }
    assert entries["abacus", "0"] == "ae1 b ax0 k ax0 s"
    assert entries["record", "v"] == "r ax0 k ao1 r d"
    trees = lexicon.letter_trees(teacher.lexicon.letter_rules[0])
    assert len(trees["roots"]) == 26
    assert max(trees["nodes"][2::4]) * 4 < len(trees["nodes"])
    assert lexicon.function_words(teacher)["the"] == "det"
    assert {len(node) for node in lexicon.tagger(teacher)} == {1, 3}


def test_wordnet_gives_words_but_no_abbreviations(tmp_path: Path) -> None:
    line = "00001 00 n 03 Paris 0 USA 0 bare_bones 0 000 | to dwell in; dwell there cgs cgs\n"
    for kind in ("noun", "verb", "adj", "adv"):
        (tmp_path / f"data.{kind}").write_text(f"  1 licence\n{line}", "utf-8")
    assert lexicon.wordnet_words(tmp_path) == {"paris", "dwell", "there"}


def test_the_supplement_holds_known_phones_only() -> None:
    entries = lexicon.supplement(lexicon.SUPPLEMENT)
    assert entries["we're"] == "w ih1 r"
    assert {phone for phones in entries.values() for phone in phones.split()} <= SYMBOL_IDS.keys()
