"""A gateway's part of what several gateways see as free."""

from __future__ import annotations

from gateway.admission.peers import GatewayUse, Peers
from gateway.admission.turns import Turns


def turns_of_four() -> Turns:
    """Of one of four gateways, which have admitted nothing so far."""
    peers = Peers()
    for name in "abc":
        peers.hear(GatewayUse(name), 0.0)
    return Turns(peers, window_s=0.1, most_s=1.0)


def test_a_gateway_takes_its_share_in_a_window_and_one_at_least() -> None:
    turns = turns_of_four()
    taken = 0
    while turns.has_come("m", 32 - taken, 0.0):
        turns.took(["m"], 0.0)
        taken += 1
    assert taken == 8
    assert turns_of_four().has_come("m", 1, 0.0)


def test_the_next_turn_comes_when_the_first_taken_leaves_the_window() -> None:
    turns = turns_of_four()
    turns.took(["m"], 1.0)
    turns.echo(turns.say(1.0)[1], 0)
    assert not turns.has_come("m", 3, 1.04)
    assert turns.has_come("m", 3, 1.1)


def test_a_window_stays_open_until_the_word_of_it_has_come_back_or_there_is_no_broker() -> None:
    turns = turns_of_four()
    before = turns.say(0.9)[1]
    turns.took(["m"], 1.0)
    turns.echo(before, 0)
    assert not turns.has_come("m", 3, 1.5)
    assert turns.has_come("m", 3, 2.0)
    turns.took(["m"], 3.0)
    turns.echo(turns.say(3.0)[1], 0)
    assert turns.has_come("m", 3, 3.1)


def test_kinds_are_counted_apart() -> None:
    turns = turns_of_four()
    turns.took(["a"], 0.0)
    assert not turns.has_come("a", 2, 0.0)
    assert turns.has_come("b", 2, 0.0)


def test_a_gateway_that_admits_more_has_a_larger_part() -> None:
    turns = turns_of_four()
    turns.took(["n"] * 8, 0.0)
    turns.echo(turns.say(0.0)[1], 8)
    turns.took(["m"], 0.0)
    assert turns.has_come("m", 3, 0.0)
