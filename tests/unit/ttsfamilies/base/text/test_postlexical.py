import pytest

from ttsfamilies.base.text.lexicon import post_lexical

PHONES = {
    "the": ("dh", "ax0"),
    "apple": ("ae1", "p", "ax0", "l"),
    "dog": ("d", "ao1", "g"),
    "cat": ("k", "ae1", "t"),
    "boss": ("b", "ao1", "s"),
    "it": ("ih1", "t"),
    "you": ("y", "uw1"),
    "'s": ("z",),
    "'d": ("d",),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the apple", "dh iy0 ae1 p ax0 l"),
        ("the dog", "dh ax0 d ao1 g"),
        ("dog 's", "d ao1 g z"),
        ("cat 's", "k ae1 t s"),
        ("boss 's", "b ao1 s ax0 z"),
        ("it 'd", "ih1 t ax0 d"),
        ("you 'd", "y uw1 d"),
        ("'s", "z"),
    ],
)
def test_neighbours_change_the_phones(text: str, expected: str) -> None:
    words = text.split()
    joined = post_lexical(words, [PHONES[word] for word in words])
    assert " ".join(phone for phones in joined for phone in phones) == expected
