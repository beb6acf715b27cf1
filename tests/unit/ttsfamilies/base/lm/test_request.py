"""What a request asks of a language model, and how it is drawn."""

import pytest

from ttscommon.wire.messages import Sampling
from ttscommon.wire.pieces import Boundary, Pause, Phones, Piece, Text
from ttsfamilies.base.lm.request import (
    Drawing,
    LayeredDrawing,
    PenalisedDrawing,
    chosen,
    plain_text,
)


@pytest.mark.parametrize(("asked", "found"), [(None, 7), (0, 0), (3, 3)])
def test_what_is_asked_for_counts_even_if_it_is_nothing(asked: int | None, found: int) -> None:
    assert chosen(asked, 7) == found


@pytest.mark.parametrize(
    ("piece", "text"),
    [
        (Text("The tide"), "The tide"),
        (Boundary(), " "),
        (Pause(0.5), " "),
        (Phones("live", "l ay v"), "live"),
        (Phones("WHO", "", alias="World Health Organization"), "World Health Organization"),
    ],
)
def test_a_model_that_reads_letters_alone_is_shown_what_is_to_be_said(
    piece: Piece, text: str
) -> None:
    assert plain_text(piece) == text


# What a request asks for stands over a model's defaults, and what it does not name stays.


def test_nothing_asked_is_the_model_s_own() -> None:
    usual = PenalisedDrawing(0.6, 20, 0.8, 1.3)
    assert usual.with_asked(Sampling()) == usual


def test_each_wish_stands_in_its_place_even_if_it_is_nought() -> None:
    asked = Sampling(temperature=0.0, top_k=0, top_p=0.5, repetition_penalty=2.0)
    assert PenalisedDrawing(0.6, 20, 0.8, 1.3).with_asked(asked) == PenalisedDrawing(
        0.0, 0, 0.5, 2.0
    )
    assert Drawing(0.6, 20, 0.8).with_asked(asked) == Drawing(0.0, 0, 0.5)


def test_codebooks_behind_the_first_have_wishes_of_their_own() -> None:
    asked = Sampling(temperature=0.3, subtalker_top_p=0.5)
    found = LayeredDrawing(0.6, 20, 0.8, 0.7, 10, 0.9).with_asked(asked)
    assert found == LayeredDrawing(0.3, 20, 0.8, 0.7, 10, 0.5)
