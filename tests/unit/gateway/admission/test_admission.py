"""Who may speak now, with a stopped clock and replicas of our own making."""

import asyncio
import math
from contextlib import ExitStack
from typing import Any

import pytest

from gateway.admission import Admission, Applicant
from gateway.admission import refusals as refusals_module
from gateway.errors import Draining, RateLimited, Unavailable, headers
from gateway.keys import KeyRing, Tenant, TextLimits
from gateway.settings import GatewaySettings
from tests.unit.gateway.admission.replicas import Replicas
from tests.waits import until
from ttscommon.cluster.admission import AdmissionLimits, LoopTuning
from ttscommon.process.metrics import GatewayMetrics
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import Overloaded


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def admission(
    replicas: Replicas | None = None, tenants: dict[str, Tenant] | None = None, **settings: Any
) -> Admission:
    keys = KeyRing(tenants, required=True) if tenants else KeyRing()
    catalogue: Any = replicas or Replicas()
    metrics, limits = GatewayMetrics(), AdmissionLimits(loop=LoopTuning(first=1.0))
    made = GatewaySettings(**settings)
    return Admission(made, catalogue, metrics, keys, clock=Clock(), limits=limits)


def request(tenant: str = "", *, resumed: bool = False) -> Applicant:
    return Applicant(tenant, "m", len("hello"), resumed=resumed)


def sounding(one: Admission, applicant: Applicant | None = None) -> ExitStack:
    """A stream with a first sound."""
    with ExitStack() as stack:
        stack.enter_context(one.stream(applicant or request())).silence_ends()
        return stack.pop_all()


def take(one: Admission, stack: ExitStack, tenant: str = "") -> int:
    """Streams admitted, each of which has its sound at once, until one is refused."""
    for taken in range(10_000):
        try:
            stack.enter_context(sounding(one, request(tenant)))
        except Overloaded:
            return taken
    raise AssertionError("never refused")


def refusals(one: Admission, reason: str) -> float:
    labels = {"reason": reason, "model": "m", "tenant": ""}
    return one.metrics.registry.get_sample_value("tts_refused_total", labels) or 0.0


def test_a_stream_that_waits_for_text_leaves_its_room_to_others() -> None:
    one = admission()
    with ExitStack() as stack:
        typing = []
        for _ in range(8):
            typing.append(stack.enter_context(one.stream(request())))
            typing[-1].silence_ends()
        assert take(one, stack) == 0
        for grant in typing[:3]:
            grant.rest()
            grant.rest()
        assert take(one, stack) == 3
        assert one.streams == 11
        typing[0].add_text(1)  # goes on, room or not
        typing[1].rest()
        assert one.catalogue.own["m"] == 9
        assert take(one, stack) == 0
    assert one.streams == 0
    assert one.catalogue.own["m"] == 0
    assert one.idle.is_set()


async def test_a_request_takes_the_room_of_a_stream_whose_text_pauses() -> None:
    one = admission()
    clock: Any = one.clock
    with ExitStack() as stack:
        grants = [stack.enter_context(one.stream(request()))]
        grants[0].silence_ends()
        assert take(one, stack) == 7
        since_s = clock()
        grants[0].follow(lambda: since_s)
        clock.now += 0.9
        waiting = asyncio.create_task(one.wait(request()))
        await asyncio.sleep(0)
        clock.now += 0.1
        one.look()
        assert await waiting
        stack.enter_context(one.stream(request()))
        assert one.streams == 9
        grants[0].wake()  # it goes on, and there is no room again
        clock.now += 0.9
        one.look()
        assert take(one, stack) == 0


@pytest.mark.parametrize(
    ("paused_s", "held_s"), [(0.1, 0.1), (0.5, 0.55), (0.9, 0.15)], ids=["no", "later", "soon"]
)
async def test_a_request_is_held_until_a_stream_rests_that_is_about_to(
    paused_s: float, held_s: float
) -> None:
    one = admission(max_streams=1, admission="off", max_wait_s=5.0)
    clock: Any = one.clock
    with one.stream(request()) as grant:
        since_s = clock()
        grant.follow(lambda: since_s)
        clock.now += paused_s
        began_s = asyncio.get_running_loop().time()
        await one.wait(request())
        took_s = asyncio.get_running_loop().time() - began_s
        assert held_s <= took_s < held_s + 0.3


def test_streams_that_wait_for_text_count_in_the_limits_of_their_key_and_gateway() -> None:
    tenants = {"a": Tenant(sha256="a" * 64, streams=2), "b": Tenant(sha256="b" * 64)}
    one = admission(tenants=tenants, max_streams=3)
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(one.stream(request("a"))).rest()
        with pytest.raises(RateLimited):
            one.admit(request("a"))
        assert take(one, stack, "b") == 1


def test_a_key_may_have_limits_of_its_own_for_how_its_text_comes() -> None:
    own = Tenant(sha256="a" * 64, text_seconds=10.0, least_characters_per_minute=0.0)
    one = admission(tenants={"a": own, "b": Tenant(sha256="b" * 64)})
    assert one.keys.tenants["a"].text_limits(one.settings) == TextLimits(60.0, 10.0, 0.0)
    assert one.keys.tenants["b"].text_limits(one.settings) == TextLimits(60.0, 900.0, 0.2)


def test_nobody_is_admitted_without_a_live_stage_or_by_a_draining_gateway() -> None:
    replicas = Replicas()
    one = admission(replicas)
    replicas.live = False
    with pytest.raises(Unavailable, match="talker"):
        one.admit(request())
    replicas.live, one.draining = True, True
    with pytest.raises(Draining):
        one.admit(request())


def test_a_refused_key_is_told_when_its_stream_will_have_ended() -> None:
    one = admission(tenants={"a": Tenant(streams=1), "b": Tenant()})
    clock: Any = one.clock
    with one.stream(Applicant("b", "m", 100)):  # learns what a character takes
        clock.now += 5.0
    with one.stream(Applicant("a", "m", 380)):
        clock.now += 4.0
        with (
            pytest.raises(RateLimited, match="streams of this key") as caught,
            one.stream(request("a")),
        ):
            pass
    assert headers(caught.value) == {"retry-after": "15"}


def test_a_full_gateway_tells_when_the_next_stream_ends() -> None:
    one = admission(max_streams=2)
    with sounding(one, Applicant("", "m", 100)), sounding(one, Applicant("", "m", 400)):
        told = []
        for _ in range(3):
            with pytest.raises(Overloaded) as caught, one.stream(request()):
                pass
            told.append(caught.value.retry_after_s)
    assert told[0] == 6.0
    assert max(told) <= 6.0
    assert len(set(told)) == 3


async def test_a_key_that_has_used_up_its_minute_is_not_held_and_is_counted() -> None:
    one = admission(tenants={"a": Tenant(requests_per_minute=1)}, max_wait_s=60.0)
    one.admit(request("a"))
    with pytest.raises(RateLimited):
        await one.wait(request("a"))
    labels = {"reason": "rate_limit_exceeded", "model": "m", "tenant": "a"}
    assert one.metrics.registry.get_sample_value("tts_refused_total", labels) == 1


@pytest.mark.parametrize("max_wait_s", [0.0, 5.0])
async def test_a_request_without_room_gets_the_next_place_while_it_would_wait(
    max_wait_s: float,
) -> None:
    one = admission(max_streams=1, max_wait_s=5.0)
    with sounding(one):
        waiting = asyncio.create_task(one.wait(Applicant("", "m", 5, max_wait_s=max_wait_s)))
        await asyncio.sleep(0)
        assert not waiting.done()
    assert await waiting


async def test_a_request_is_held_for_a_moment_and_no_longer_than_the_gateway_allows() -> None:
    one = admission(max_streams=1, max_wait_s=0)
    with sounding(one):
        assert not await one.wait(Applicant("", "m", 5, max_wait_s=5.0))
    one = admission(max_streams=1)
    with sounding(one):
        began_s = asyncio.get_running_loop().time()
        assert await one.wait(request())  # in vain
        assert asyncio.get_running_loop().time() - began_s >= one.limits.loop.hold_s


def test_a_refused_request_costs_nothing() -> None:
    one = admission(tenants={"a": Tenant(requests_per_minute=1, streams=1)}, max_streams=1)
    with one.stream(request("a")), pytest.raises(RateLimited):
        one.admit(request("a"))
    clock: Any = one.clock
    clock.now += 61.0
    one.admit(request("a"))


def test_text_that_comes_later_counts_too() -> None:
    one = admission(tenants={"a": Tenant(characters_per_minute=100), "b": Tenant()})
    with one.stream(request("a")) as grant:
        grant.add_text(200)
    with pytest.raises(RateLimited, match="characters"):
        one.admit(request("a"))


def test_what_is_borrowed_comes_after_what_is_due() -> None:
    one = admission(Replicas(slots=20), tenants={"a": Tenant(), "b": Tenant()})
    with ExitStack() as stack:
        stack.enter_context(sounding(one, request("b")))
        grants = []
        for _ in range(12):
            grants.append(stack.enter_context(one.stream(request("a"))))
            grants[-1].silence_ends()
    assert grants[0].priority == 5
    assert grants[-1].priority < 5


def test_streams_of_a_gateway_that_died_do_not_count_twice_where_they_go_on() -> None:
    replicas = Replicas()
    replicas.others = 5  # as the talkers still report them
    one = admission(replicas)
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(one.stream(request(resumed=True)))
        assert take(one, stack) == 3


def test_a_keys_limits_hold_for_what_it_resumes() -> None:
    tenants = {"a": Tenant(streams=1), "b": Tenant(requests_per_minute=1)}
    one = admission(tenants=tenants)
    with one.stream(request("a", resumed=True)), pytest.raises(RateLimited):
        one.admit(request("a", resumed=True))
    with one.stream(request("b", resumed=True)), pytest.raises(RateLimited):
        one.admit(request("b", resumed=True))
    full = admission(max_streams=1)
    with full.stream(request(resumed=True)), pytest.raises(Overloaded):
        full.admit(request(resumed=True))


async def test_a_request_is_refused_at_the_door_where_no_model_has_room() -> None:
    replicas = Replicas()
    one = admission(replicas, max_wait_s=5.0)
    with ExitStack() as stack:
        assert take(one, stack) == 8
        with pytest.raises(Overloaded) as caught:
            await one.refuse_early("", 0.0)
        assert caught.value.retry_after_s > 0.0
        assert refusals(one, "overloaded") == 2
        waiting = asyncio.create_task(one.refuse_early("", 5.0))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        replicas.models = ["m", "n"]  # the other has room
        await one.refuse_early("", 0.0)
        assert refusals(one, "overloaded") == 2
    await waiting


def playing(one: Admission, slack_s: float | None) -> ExitStack:
    """A stream whose listener has so much left all the time."""
    with ExitStack() as stack:
        grant = stack.enter_context(one.stream(request()))
        grant.slack_s = lambda now: slack_s
        grant.silence_ends()
        return stack.pop_all()


def look(one: Admission, seconds: float) -> None:
    clock: Any = one.clock
    for _ in range(round(seconds / one.limits.look_s)):
        clock.now += one.limits.look_s
        for model in one.look():
            one.control.give_up(model)


def test_the_limit_follows_what_listeners_have_left() -> None:
    one = admission(Replicas(slots=60, full_s=0.025))
    with ExitStack() as stack:
        before = take(one, stack)
    with ExitStack() as stack:
        for _ in range(before):
            stack.enter_context(playing(one, 2.0))
        look(one, 1.0)
        assert take(one, stack) > 0
    with ExitStack() as stack:
        for _ in range(before):
            stack.enter_context(playing(one, 0.1))
        look(one, 3.0)
    with ExitStack() as stack:
        assert take(one, stack) < before


def test_the_youngest_silent_stream_is_given_up_for_those_that_sound() -> None:
    one = admission()
    ended = []
    with playing(one, 0.05), one.stream(request()) as older, one.stream(request()) as younger:
        older.give_up = lambda: ended.append("older")
        younger.give_up = lambda: ended.append("younger")
        look(one, 0.1)
        assert ended == ["younger"]
        younger.silence_ends()
        look(one, 0.2)
    assert ended == ["younger", "older"]


def test_a_stream_that_a_worker_may_have_died_of_is_not_given_up() -> None:
    """Its client would ask for it again, and it would kill as many workers again."""
    replicas, ended = Replicas(), list[str]()
    one = admission(replicas)
    clock: Any = one.clock
    with playing(one, 0.05), one.stream(request()) as poison:
        poison.give_up = lambda: ended.append("poison")
        replicas.died_s["m"] = clock.now
        clock.now += 0.01
        with one.stream(request()) as later:
            later.give_up = lambda: ended.append("later")
            look(one, 0.1)
            assert ended == ["later"]
            later.silence_ends()
            look(one, 0.5)
    assert ended == ["later"]


async def test_no_stream_is_given_up_while_a_worker_does_not_answer() -> None:
    """It may be dying of that stream."""
    replicas, ended = Replicas(), list[str]()
    one = admission(replicas)
    clock: Any = one.clock
    with playing(one, 0.05), one.stream(request()) as silent:
        silent.give_up = lambda: ended.append("silent")
        replicas.answering = False
        looking = asyncio.create_task(one.run())
        await until(lambda: replicas.asked == ["m"])
        assert not ended
        replicas.answering = True
        clock.now += 1.0
        await until(lambda: ended == ["silent"])
        await stop(looking)


def test_without_admission_no_stream_is_given_up_for_others() -> None:
    one = admission(admission="off")
    ended = []
    with playing(one, 0.05), one.stream(request()) as silent:
        silent.give_up = lambda: ended.append("silent")
        look(one, 0.1)
    assert not ended


def test_jobs_stop_before_a_silent_stream_is_given_up() -> None:
    one = admission()
    ended: list[str] = []
    one.offline.give_way = lambda model, count: ended.append(f"{count} of {model}")
    with ExitStack() as stack:
        stack.enter_context(playing(one, 0.05))
        stack.enter_context(one.stream(request())).give_up = lambda: ended.append("silent")
        with one.offline.stream("m", ""):
            look(one, 0.1)
            assert ended == ["1 of m"]
            assert one.offline.room("m") == 0
        look(one, 0.2)
    assert ended == ["1 of m", "silent"]


def test_an_idle_gateway_shows_no_slack() -> None:
    one = admission()

    def shown() -> float | None:
        labels = {"model": "m"}
        return one.metrics.registry.get_sample_value("tts_least_slack_seconds", labels)

    with playing(one, 0.3):
        look(one, 0.1)
        assert shown() == 0.3
    look(one, 0.1)
    slack_s = shown()
    assert slack_s is not None
    assert math.isnan(slack_s)


def test_refusals_are_logged_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[dict[str, Any]] = []
    monkeypatch.setattr(refusals_module.log_, "info", lambda _, **words: lines.append(words))
    one = admission(max_streams=1)
    with sounding(one):
        for _ in range(50):
            with pytest.raises(Overloaded), one.stream(request()):
                pass
        look(one, 3.0)
    assert [line["count"] for line in lines] == [50]
