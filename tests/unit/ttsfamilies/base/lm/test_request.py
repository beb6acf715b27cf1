"""What a request asks of a language model, and how it is drawn."""

import pytest

from ttscommon.wire.messages import Sampling
from ttscommon.wire.pieces import Boundary, Pause, Phones, Piece, Text
from ttsfamilies.base.lm.request import (
    Drawing,
    LayeredDrawing,
    PenalisedDrawing,
    plain_text,
)


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


PENALISED = PenalisedDrawing(0.6, 20, 0.8, 1.3)
ASKED = Sampling(temperature=0.0, top_k=0, top_p=0.5, repetition_penalty=2.0)
BEHIND = Sampling(temperature=0.3, subtalker_top_p=0.5)


@pytest.mark.parametrize(
    ("usual", "asked", "found"),
    [
        (PENALISED, Sampling(), PENALISED),
        (PENALISED, ASKED, PenalisedDrawing(0.0, 0, 0.5, 2.0)),
        (Drawing(0.6, 20, 0.8), ASKED, Drawing(0.0, 0, 0.5)),
        # Codebooks behind the first have settings of their own.
        (
            LayeredDrawing(0.6, 20, 0.8, 0.7, 10, 0.9),
            BEHIND,
            LayeredDrawing(0.3, 20, 0.8, 0.7, 10, 0.5),
        ),
    ],
)
def test_what_a_request_names_counts_even_if_it_is_0_and_the_rest_is_the_model_s_own(
    usual: Drawing, asked: Sampling, found: Drawing
) -> None:
    assert usual.with_asked(asked) == found
