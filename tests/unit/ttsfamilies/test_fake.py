import pytest

from ttscommon.wire.errors import NothingToSay
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.fake.talker import FakePrepared

TEXT = "  The tide\n came in.  "


@pytest.mark.parametrize("cut", range(len(TEXT) + 1))
def test_a_text_has_as_many_characters_wherever_it_is_cut(cut: int) -> None:
    """Its end may come alone."""
    reading = FakePrepared(SpeechRequest("r", "fake", "slt", ""))
    counts = [*reading.read([Text(TEXT[:cut])], final=False)]
    counts += reading.read([Text(TEXT[cut:])] if cut < len(TEXT) else [], final=True)
    assert sum(counts) == len(TEXT.strip())


def test_white_space_is_nothing_to_say() -> None:
    with pytest.raises(NothingToSay):
        list(FakePrepared(SpeechRequest("r", "fake", "slt", "")).read([Text(" \n")], final=True))
