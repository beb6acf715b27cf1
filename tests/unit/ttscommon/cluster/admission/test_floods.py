"""A flood is a key that is refused beside one that is not."""

from __future__ import annotations

import pytest

from ttscommon.cluster.admission.floods import Congestion, FloodDetector


def test_who_is_refused_beside_a_calm_key_floods() -> None:
    floods = FloodDetector()
    assert not floods.floods("a", ["a", "b"], 100.0)
    floods.refused("a", 100.0)
    assert floods.floods("a", ["a", "b"], 101.0)
    assert not floods.floods("b", ["a", "b"], 101.0)
    assert not floods.floods("a", ["a"], 101.0)  # nobody else to wait for it
    assert not floods.floods("a", ["a", "b"], 103.0)  # it stopped


def test_where_everybody_is_refused_nobody_floods() -> None:
    floods = FloodDetector()
    floods.refused("a", 100.0)
    floods.refused("b", 99.0)
    assert not floods.floods("a", ["a", "b"], 100.5)
    assert floods.floods("a", ["a", "b", "c"], 100.5)


def test_congestion_is_relative_to_quiet_and_forgotten() -> None:
    congestion = Congestion()
    for _ in range(30):
        congestion.learn(1.5, 0.0, alone=True)  # the forecast is off by half: that is no congestion
    assert congestion.quiet == pytest.approx(1.5, rel=0.01)
    assert not congestion.congested(0.0)
    for _ in range(5):
        congestion.learn(2.5, 0.0, alone=False)
    assert congestion.congested(0.0)
    assert congestion.quiet == pytest.approx(1.5, rel=0.01)
    assert not congestion.congested(5.0)
