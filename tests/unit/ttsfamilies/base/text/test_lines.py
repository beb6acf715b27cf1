"""Which line breaks end an utterance."""

import pytest

from ttsfamilies.base.text.segment import utterances

WRAPPED = """I wanted to let you know that the meeting has been moved to
Thursday afternoon, because the room that we had booked is no
longer available. We met Anna from the travel agency in New
York and she told us about
Portugal."""


def test_wrapped_text_is_read_on() -> None:
    assert [" ".join(one.split()) for one in utterances(WRAPPED)] == [
        "I wanted to let you know that the meeting has been moved to Thursday afternoon,"
        " because the room that we had booked is no longer available.",
        "We met Anna from the travel agency in New York and she told us about Portugal.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Shopping list:\nMilk\nEggs\nbread and butter",
        "# A heading\nIts text",
        "Two roads diverged in a yellow wood,\nAnd sorry I could not travel both",
        "Anna: Where are you?\nBen: Here\nAnna: Wait",
        "| Name | Age |\n|---|---|\n| Ben | 4 |",
        "milk\neggs\nbread",
        "> quoted\n> and on",
        "Implemented the new cache for the gateway in two days\n- and one more thing",
        "Best wishes\nTom",
    ],
)
def test_lines_that_were_not_wrapped_end_where_they_end(text: str) -> None:
    assert utterances(text) == text.split("\n")


@pytest.mark.parametrize("text", ["We met Dr.\nSmith", "this is the\nend", "It was of\nno use"])
def test_a_line_that_cannot_end_there_goes_on(text: str) -> None:
    assert utterances(text) == [text]
