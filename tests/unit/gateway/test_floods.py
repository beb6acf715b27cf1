"""A flood is a key that is refused beside one that is not."""

from __future__ import annotations

import pytest

from gateway.floods import Crowding, Floods


def test_who_is_refused_beside_a_calm_key_floods() -> None:
    floods = Floods()
    assert not floods.floods("a", ["a", "b"], 100.0)
    floods.refused("a", 100.0)
    assert floods.floods("a", ["a", "b"], 101.0)
    assert not floods.floods("b", ["a", "b"], 101.0)
    assert not floods.floods("a", ["a"], 101.0)  # nobody else to wait for it
    assert not floods.floods("a", ["a", "b"], 103.0)  # it stopped


def test_where_everybody_is_refused_nobody_floods() -> None:
    floods = Floods()
    floods.refused("a", 100.0)
    floods.refused("b", 99.0)
    assert not floods.floods("a", ["a", "b"], 100.5)
    assert floods.floods("a", ["a", "b", "c"], 100.5)


def test_crowding_is_relative_to_quiet_and_forgotten() -> None:
    crowding = Crowding()
    for _ in range(30):
        crowding.learn(1.5, 0.0, alone=True)  # the forecast is off by half: that is no crowd
    assert crowding.quiet == pytest.approx(1.5, rel=0.01)
    assert not crowding.crowded(0.0)
    for _ in range(5):
        crowding.learn(2.5, 0.0, alone=False)
    assert crowding.crowded(0.0)
    assert crowding.quiet == pytest.approx(1.5, rel=0.01)
    assert not crowding.crowded(5.0)
