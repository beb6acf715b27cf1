import pytest

from ttscommon.wire.errors import NothingToSay
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.fake.talker import FakePrepared

TEXT = "  The tide\n came in.  "


def prepared() -> FakePrepared:
    return FakePrepared(SpeechRequest("r", "fake", "slt", ""))


@pytest.mark.parametrize("cut", range(len(TEXT) + 1))
def test_a_text_has_as_many_characters_wherever_it_is_cut(cut: int) -> None:
    reading = prepared()
    counts = [*reading.read([Text(TEXT[:cut])], final=False)]
    counts += reading.read([Text(TEXT[cut:])], final=True)
    assert sum(counts) == len(TEXT.strip())


def test_the_end_may_come_alone() -> None:
    reading = prepared()
    counts = [*reading.read([Text(TEXT)], final=False), *reading.read([], final=True)]
    assert sum(counts) == len(TEXT.strip())


def test_white_space_is_nothing_to_say() -> None:
    with pytest.raises(NothingToSay):
        list(prepared().read([Text(" \n")], final=True))
