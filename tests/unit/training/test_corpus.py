"""Training text, what the teacher is asked to say, and held-out sets."""

import random
from pathlib import Path

import pytest

from voicetrain import corpus
from voicetrain.corpus import everyday_sentences
from voicetrain.vesper.text import corpus_texts, evaluation_sentences, long_texts

needs_wordnet = pytest.mark.skipif(
    not (corpus.WORDNET / "data.noun").exists(), reason="WordNet's database is not installed"
)


def test_the_held_out_sets_have_their_sizes_and_no_doubles() -> None:
    easy, hard = corpus.held_out("easy"), corpus.held_out("hard")
    assert (len(easy), len(hard)) == (120, 100)
    assert len({corpus.normal_form(s) for s in [*easy, *hard]}) == 220


def test_the_everyday_generator_gives_thousands_of_different_sentences() -> None:
    sentences = everyday_sentences(5000, random.Random(1))
    assert len(set(sentences)) == 5000
    assert not any("{" in sentence for sentence in sentences)
    assert sum(sentence.endswith("?") for sentence in sentences) > 300


def test_contamination_is_seen_in_whole_sentences_and_in_parts_of_them() -> None:
    held = ["The old man walked slowly down the road."]
    clean = "Nobody walked down the road."
    whole, longer = "the old man walked slowly down the road", f"He said: {held[0]}"
    part = "Old man walked slowly down"
    assert corpus.contaminated([clean, whole, longer, part], held) == [whole, longer, part]


@needs_wordnet
def test_no_held_out_sentence_is_in_the_training_text() -> None:
    text = corpus.training_text(24_000, seed=1)
    assert len(text) == 24_000
    assert not corpus.contaminated(text, [*corpus.held_out("easy"), *corpus.held_out("hard")])


@needs_wordnet
def test_the_training_text_depends_on_its_seed_alone() -> None:
    assert corpus.training_text(600, seed=3) == corpus.training_text(600, seed=3)
    assert corpus.training_text(600, seed=3) != corpus.training_text(600, seed=4)


@needs_wordnet
def test_the_hard_set_follows_from_its_rule() -> None:
    assert corpus.choose_hard() == corpus.held_out("hard")


def test_a_missing_wordnet_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        corpus.wordnet_sentences(random.Random(0), tmp_path)


def test_there_are_ten_long_texts_of_300_words() -> None:
    lengths = [len(text.split()) for text in long_texts()]
    assert len(lengths) == 10
    assert all(285 <= length <= 315 for length in lengths)


@needs_wordnet
def test_texts_are_the_same_each_time_and_other_for_another_seed() -> None:
    assert corpus_texts(400, 1) == corpus_texts(400, 1)
    assert len(set(corpus_texts(400, 1)) & set(corpus_texts(400, 2))) < 40


@needs_wordnet
def test_texts_are_short_and_long_questions_and_clauses_and_none_is_evaluated() -> None:
    texts = corpus_texts(4000, 1)
    words = [len(text.split()) for text in texts]
    assert len(texts) == 4000
    assert sum(count > 20 for count in words) > 200
    assert sum(count < 4 for count in words) > 200
    assert sum(text.endswith("?") for text in texts) > 100
    assert sum(text.endswith(",") for text in texts) > 50
    assert not corpus.contaminated(texts, evaluation_sentences())
