"""What is known of the other gateways: totals that heal, and shares that add up."""

import pytest

from gateway.admission.peers import GatewayUse, Peers, PeersTuning, PeerUsage, TenantUse, Turns
from ttscommon.wire.errors import MalformedMessage


def use(gateway: str, *, whole: bool = False, recent: int = 0, **tenants: TenantUse) -> GatewayUse:
    return GatewayUse(gateway, {"m": 2}, recent, tenants, whole)


def test_streams_of_all_living_gateways_are_counted_until_they_leave_or_fall_silent() -> None:
    peers = Peers(PeersTuning(silent_s=3.0))
    peers.hear(use("a", acme=TenantUse(held=2)), 0.0)
    peers.hear(use("b", acme=TenantUse(held=1)), 2.0)
    assert (len(peers), peers.streams("m"), peers.held("acme")) == (2, 4, 3)
    assert peers.forget_silent(4.0) == ["a"]
    assert (len(peers), peers.streams("m"), peers.held("acme")) == (1, 2, 1)
    peers.hear(GatewayUse("b", leaving=True), 4.0)
    assert (len(peers), peers.streams("m"), peers.held("acme")) == (0, 0, 0)


def test_what_was_used_is_counted_once_also_when_a_word_was_lost() -> None:
    peers = Peers()
    peers.hear(use("a", acme=TenantUse(requests=5, characters=50)), 0.0)
    later = use("a", acme=TenantUse(requests=8, characters=90))
    assert peers.hear(later, 0.1) == [PeerUsage("acme", 3, 40, met=False)]
    assert peers.hear(later, 0.2) == []


def test_a_gateway_that_is_met_says_what_its_tenants_owe() -> None:
    known = TenantUse(requests=500, characters=9000, requests_owed=4.0, characters_owed=70.0)
    assert Peers().hear(use("a", acme=known), 0.0) == [PeerUsage("acme", 4.0, 70.0, met=True)]


def test_a_whole_word_clears_streams_that_a_lost_one_would_have_cleared() -> None:
    peers = Peers()
    peers.hear(use("a", acme=TenantUse(held=2, requests=2), other=TenantUse(held=1)), 0.0)
    peers.hear(use("a", acme=TenantUse(held=1, requests=2)), 0.1)
    assert (peers.held("acme"), peers.held("other")) == (1, 1)
    peers.hear(use("a", whole=True), 0.2)
    assert (peers.held("acme"), peers.held("other")) == (0, 0)


@pytest.mark.parametrize("recent", [(0, 0, 0, 0), (3, 0, 0, 0), (10, 4, 1, 7)])
def test_the_shares_of_all_gateways_are_one_in_sum(recent: tuple[int, ...]) -> None:
    shares = []
    for mine, count in enumerate(recent):
        peers = Peers()
        for other, admitted in enumerate(recent):
            if other != mine:
                peers.hear(use(f"gateway-{other}", recent=admitted), 0.0)
        shares.append(peers.share(count))
    assert sum(shares) == pytest.approx(1.0)
    assert shares.index(max(shares)) == recent.index(max(recent))


def test_a_word_survives_the_wire_and_anything_else_is_refused() -> None:
    word = use("a", acme=TenantUse(held=2, requests=1, characters=3, requests_owed=0.5))
    assert GatewayUse.decode(word.encode()) == word
    with pytest.raises(MalformedMessage):
        GatewayUse.decode(b"\xc1")


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


def test_a_window_stays_open_until_the_word_of_it_has_come_back_or_there_is_no_broker() -> None:
    turns = turns_of_four()
    before = turns.say(0.9)[1]
    turns.took(["m"], 1.0)
    turns.echo(before, 0)
    assert not turns.has_come("m", 3, 1.5)
    assert turns.has_come("m", 3, 2.0)
    turns.took(["m"], 3.0)
    turns.echo(turns.say(3.0)[1], 0)
    assert not turns.has_come("m", 3, 3.04)
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
