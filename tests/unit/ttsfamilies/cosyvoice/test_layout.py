"""How a streamed text and its speech take turns."""

from hypothesis import given
from hypothesis import strategies as st

from ttsfamilies.cosyvoice.request import Block, Blocks, Opening, common

HEADER, TASK, SPEECH = (900,), 901, 1000
ids = st.integers(0, 99)
openings = st.builds(
    lambda text, speech: Opening(HEADER, tuple(text), tuple(SPEECH + s for s in speech), TASK),
    st.lists(ids, max_size=30),
    st.lists(ids, max_size=50),
)


def blocks(opening: Opening, text: list[int]) -> list[Block]:
    found = Blocks(opening)
    found.feed(text, final=True)
    return found.known


def test_without_a_recording_five_tokens_of_text_begin_each_turn() -> None:
    found = blocks(Opening(HEADER, (), (), TASK), list(range(12)))
    assert found == [
        Block((*HEADER, 0, 1, 2, 3, 4), 15),
        Block((5, 6, 7, 8, 9), 15),
        Block((10, 11, TASK), None),
    ]


def test_behind_a_recording_the_first_turn_is_what_its_last_turn_lacks() -> None:
    speech = tuple(range(SPEECH, SPEECH + 20))
    first = blocks(Opening(HEADER, tuple(range(10)), speech, TASK), [50])[0]
    assert first.ids == (*HEADER, *range(5), *speech[:15], *range(5, 10), *speech[15:])
    assert first.limit == 10


def test_a_recording_that_the_text_is_too_short_for_is_cut() -> None:
    speech = tuple(range(SPEECH, SPEECH + 40))
    (only,) = blocks(Opening(HEADER, (1, 2, 3), speech, TASK), [4, 5, 6])
    assert only == Block((*HEADER, 1, 2, 3, 4, 5, *speech[:15], 6, TASK), None)


@given(openings, st.lists(ids, min_size=1, max_size=60), st.lists(st.integers(1, 9), max_size=30))
def test_turns_do_not_depend_on_how_a_text_arrives(
    opening: Opening, text: list[int], sizes: list[int]
) -> None:
    found, at = Blocks(opening), 0
    for size in sizes:
        found.feed(text[at : at + size], final=False)
        at += size
    found.feed(text[at:], final=True)
    assert found.known == blocks(opening, text)


@given(openings, st.lists(ids, min_size=1, max_size=60))
def test_all_text_is_told_once_and_in_order(opening: Opening, text: list[int]) -> None:
    told = [one for block in blocks(opening, text) for one in block.ids if one < HEADER[0]]
    assert told == [*opening.text, *text]


@given(openings, st.lists(ids, min_size=1, max_size=40), st.lists(ids, min_size=1, max_size=40))
def test_positions_before_a_texts_own_tokens_are_common_to_all_texts(
    opening: Opening, one: list[int], other: list[int]
) -> None:
    first, second = (blocks(opening, text)[0].ids for text in (one, other))
    shared = min(common(opening), len(first), len(second))
    assert first[:shared] == second[:shared]
