"""What of a request models read alike."""

from __future__ import annotations

import pytest

from ttscommon.wire.pieces import Boundary, Pause, Phones, Piece, Text
from ttsfamilies.base.lm.request import chosen, plain_text


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
