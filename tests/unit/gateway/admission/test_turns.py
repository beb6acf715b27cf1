"""A gateway's part of what several gateways see as free."""

from __future__ import annotations

import asyncio

from gateway.admission.peers import GatewayUse, Peers
from gateway.admission.turns import Turns, Turnstile


def test_a_gateway_takes_its_share_in_a_window_and_one_at_least() -> None:
    turns = Turns(window_s=0.1)
    taken = 0
    while not turns.wait_s("m", 32 - taken, 0.25, 0.0):
        turns.took("m", 0.0)
        taken += 1
    assert taken == 8
    assert Turns().wait_s("m", 1, 0.1, 0.0) == 0.0


def test_the_next_turn_comes_when_the_first_taken_leaves_the_window() -> None:
    turns = Turns(window_s=0.1)
    turns.took("m", 1.0)
    turns.echoed = turns.say()
    assert abs(turns.wait_s("m", 3, 0.25, 1.04) - 0.06) < 1e-9
    assert turns.wait_s("m", 3, 0.25, 1.1) == 0.0


def test_a_window_stays_open_until_the_word_of_it_has_come_back_or_there_is_no_broker() -> None:
    turns = Turns(window_s=0.1, most_s=1.0)
    before = turns.say()
    turns.took("m", 1.0)
    turns.echoed = before
    assert turns.wait_s("m", 3, 0.25, 1.5) > 0.0
    assert turns.wait_s("m", 3, 0.25, 2.0) == 0.0
    turns.took("m", 3.0)
    turns.echoed = turns.say()
    assert turns.wait_s("m", 3, 0.25, 3.1) == 0.0


def test_kinds_are_counted_apart() -> None:
    turns = Turns()
    turns.took("a", 0.0)
    assert turns.wait_s("a", 2, 0.25, 0.0) > 0.0
    assert turns.wait_s("b", 2, 0.25, 0.0) == 0.0


async def test_more_than_are_free_do_not_wait() -> None:
    peers, now = Peers(), [0.0]
    for name in "abc":
        peers.hear(GatewayUse(name), 0.0)
    turnstile = Turnstile(peers, lambda: now[0])
    turnstile.took(["m"], 0.0)
    waiting = [asyncio.create_task(turnstile.wait(lambda: {"m": 2})) for _ in range(2)]
    await asyncio.sleep(0)
    assert not await turnstile.wait(lambda: {"m": 2})
    turnstile.echo(turnstile.say(0.0)[1], 1)
    now[0] = 1.0
    assert await asyncio.gather(*waiting) == [True, True]


async def test_where_nothing_is_free_nothing_is_waited_for() -> None:
    peers = Peers()
    peers.hear(GatewayUse("a"), 0.0)
    turnstile = Turnstile(peers, lambda: 0.0)
    turnstile.took(["m"], 0.0)
    assert await turnstile.wait(lambda: {"m": 0})
