import pytest

from ttscommon.cluster.admission.decaying import DecayingAverage


def test_what_was_learned_halves_towards_rest() -> None:
    one = DecayingAverage(weight=0.5, half_life_s=10.0, rest=2.0)
    assert one.now(100.0) == 2.0
    one.learn(6.0, 100.0)
    assert one.now(100.0) == pytest.approx(4.0)
    assert one.now(110.0) == pytest.approx(3.0)
    one.learn(3.0, 110.0)
    assert one.now(110.0) == pytest.approx(3.0)
