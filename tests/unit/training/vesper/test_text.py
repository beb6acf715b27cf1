"""What the teacher is asked to say."""

import pytest

from voicetrain.corpus import WORDNET, contaminated
from voicetrain.vesper.text import corpus_texts, evaluation_sentences, long_texts

needs_wordnet = pytest.mark.skipif(
    not (WORDNET / "data.noun").exists(), reason="WordNet's database is not installed"
)


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
    assert not contaminated(texts, evaluation_sentences())
