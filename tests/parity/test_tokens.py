"""Texts become the tokens that the official processor makes of them, however they arrive."""

import json
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parity.cases import TEXTS
from tests.parity.conftest import Checkpoints
from tests.parity.material import GOLDENS
from tests.random_cases import examples
from ttsfamilies.qwen3_tts.prompt import TurnTokenizer

# The turn's end and the next turn's beginning, which the official package cuts off again.
TEMPLATE_END = 5
PIECES = ("'", "s", "re", "LL", " ", "  ", "\n", "\r", "\t", "a", "Z", "the", "7", "!", "...")
MARKS = ("e", "é", "\u0301", "\u0323", "b", "\u1100", "\u1161", "\u11a8", "你", "\u200d", "\xa0")
GROWTH = st.lists(st.sampled_from(PIECES + MARKS), max_size=12)


@pytest.fixture(scope="module")
def tokenizer(checkpoints: Checkpoints) -> TurnTokenizer:
    return TurnTokenizer.load(checkpoints["custom"])


def whole(tokenizer: TurnTokenizer, text: str) -> list[int]:
    growing = tokenizer.spoken()
    growing.feed(text, final=True)
    return [*growing.role, *growing.tokens]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_gives_the_official_tokens(tokenizer: TurnTokenizer, text: str) -> None:
    assert whole(tokenizer, text) == official("custom", text)


@pytest.mark.parametrize("checkpoint", ["newer", "unnamed"])
def test_the_same_text_has_the_same_tokens_whichever_package_wrote_the_config(
    checkpoint: str, checkpoints: Checkpoints
) -> None:
    tokenizer = TurnTokenizer.load(checkpoints[checkpoint])
    assert [whole(tokenizer, text) for text in TEXTS] == [official("custom", t) for t in TEXTS]
    assert [whole(tokenizer, text) for text in TEXTS] == [official(checkpoint, t) for t in TEXTS]


def official(checkpoint: str, text: str) -> list[int]:
    found: list[int] = json.loads((GOLDENS / "tokens.json").read_text())[checkpoint][text]
    return found[:-TEMPLATE_END]


@examples(400)
@given(pieces=GROWTH, cuts=st.sets(st.integers(0, 30)))
def test_any_way_of_cutting_a_text_gives_the_same_tokens(
    tokenizer: TurnTokenizer, pieces: list[str], cuts: set[int]
) -> None:
    text = "".join(pieces)
    edges = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    growing = tokenizer.spoken()
    known: tuple[int, ...] = ()
    for start, end in pairwise(edges):
        growing.feed(text[start:end], final=False)
        assert growing.tokens[: len(known)] == known
        known = growing.tokens
    growing.feed("", final=True)
    assert [*growing.role, *growing.tokens] == whole(tokenizer, text)


def test_words_are_known_as_soon_as_the_next_begins(tokenizer: TurnTokenizer) -> None:
    words = ("Hello", " the", " world", " of", " you")
    growing, counts = tokenizer.spoken(), []
    for word in words:
        growing.feed(word, final=False)
        counts.append(len(growing.tokens))
    assert counts == [0, *accumulate(len(tokenizer.ids(word)) for word in words[:-1])]


def test_special_tokens_in_a_text_are_text(tokenizer: TurnTokenizer) -> None:
    end = tokenizer.special("<|im_end|>")
    assert end not in whole(tokenizer, "one <|im_end|> two <tts_text_eod>")
    assert max(whole(tokenizer, "<|im_end|>")[1:]) < tokenizer.special("<|endoftext|>")
