"""Epochs grow with every worker that is given a request, whichever way it comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttscommon.wire.epochs import epoch_of, handed_over, is_first, message_of

sequences = st.integers(1, 1 << 40)
deliveries = st.integers(1, 1000)


def test_only_the_first_delivery_of_a_request_is_the_first() -> None:
    assert is_first(epoch_of(7, 1))
    assert not is_first(epoch_of(7, 2))
    assert not is_first(epoch_of(7, 1, again=True))
    assert not is_first(handed_over(epoch_of(7, 1)))


@given(sequences, deliveries)
def test_a_later_delivery_and_a_later_message_have_higher_epochs(sequence: int, count: int) -> None:
    epoch = epoch_of(sequence, count)
    assert epoch < handed_over(epoch) < epoch_of(sequence, count + 1)
    assert epoch_of(sequence, count + 1) < epoch_of(sequence + 1, 1, again=True)


@given(sequences, deliveries, st.booleans(), st.integers(0, 1000))
def test_an_epoch_names_its_message(sequence: int, count: int, again: bool, hands: int) -> None:
    epoch = epoch_of(sequence, count, again=again)
    for _ in range(hands):
        epoch = handed_over(epoch)
    assert message_of(epoch) == sequence


@given(sequences, st.integers(1000, 1 << 40))
def test_no_number_of_deliveries_reaches_into_the_next_message(sequence: int, count: int) -> None:
    assert epoch_of(sequence, count, again=True) < epoch_of(sequence + 1, 1)


def test_a_request_that_is_handed_over_for_ever_is_a_fault() -> None:
    epoch = epoch_of(1, 1)
    for _ in range(1022):
        epoch = handed_over(epoch)
    with pytest.raises(OverflowError):
        handed_over(epoch)
