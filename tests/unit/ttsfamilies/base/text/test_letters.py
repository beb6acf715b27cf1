import pytest

from ttsfamilies.base.text.lexicon import LetterToPhone

# Letter "c" says k, or s before "e"; all other letters but "e" say nothing.
LEAF = 255
TREES = {
    "window": 1,
    "roots": [0, 0, 1, 0, 4, *[0] * 21],
    "nodes": [LEAF, 0, 0, 0, 1, ord("e"), 2, 3, LEAF, 2, 0, 0, LEAF, 1, 0, 0, LEAF, 3, 0, 0],
    "outputs": ["", "k", "s", "y uw1"],
}


def test_trees_ask_about_the_neighbours() -> None:
    letters = LetterToPhone(TREES)
    assert letters.phones("cce") == ("k", "s", "y", "uw1")


def test_what_is_no_letter_is_silent() -> None:
    assert LetterToPhone(TREES).phones("-c1é") == ("k",)


@pytest.mark.parametrize("change", [{"roots": [0]}, {"nodes": [LEAF]}, {"window": 0}])
def test_malformed_trees_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        LetterToPhone({**TREES, **change})
