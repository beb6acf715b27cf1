"""The default voice ends its texts; nothing of that is taken for a runaway."""

from ttsfamilies.base.talker.options import LEXICON
from voicetrain.corpus import held_out
from voicetrain.vesper.false_alarms import GuardedVoice


def test_endings_at_the_slowest_and_the_hottest_are_no_runaways() -> None:
    shortest = min(held_out("hard"), key=len)
    (found,) = GuardedVoice(LEXICON).listen([shortest], [1.2], [0.7])
    assert found.endings == 1
    assert found.seconds > 2
    assert found.caught == ()
