import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from antiphon_bench.clients.http import Layout, WavStream
from antiphon_bench.config import Closed, Poisson, Protocol, RunConfig, Target
from antiphon_bench.run import Part, Share, drive
from antiphon_bench.stats import Watch, health
from tests.unit.antiphon_bench.loopback import Loopback, Pace, Refusal, Step

QUICK = Pace(first_s=0.01, chunk_s=0.1, speed=20.0, word_s=0.02)

ALONE = Share()


async def driven(server: Loopback, config: RunConfig, share: Share = ALONE) -> Part:
    async with server.serve() as url:
        target = config.target.model_copy(update={"url": url})
        return await drive(config.model_copy(update={"target": target}), share=share)


def config(tmp_path: Path, **fields: object) -> RunConfig:
    given = {"warmup_s": 0.2, "duration_s": 0.6, "drain_s": 5.0, "out": tmp_path}
    return RunConfig.model_validate(given | fields)


async def test_an_open_loop_starts_requests_on_time_whatever_became_of_others(
    tmp_path: Path,
) -> None:
    slow = Loopback(plan=lambda _text: [Step(1.5, 160)])  # longer than the whole run
    part = await driven(slow, config(tmp_path, arrivals=Poisson(rate=40.0)))
    assert len(part.results) > 15
    assert all(r.outcome == "ok" for r in part.results)
    assert max(r.lag_s for r in part.results) < 0.2
    assert {r.measured for r in part.results} == {True, False}
    assert all(r.measured == (0.2 <= r.started_s < 0.8) for r in part.results)


async def test_shares_of_an_open_loop_are_the_whole_once(tmp_path: Path) -> None:
    plan = config(tmp_path, arrivals=Poisson(rate=30.0))
    shares = (ALONE, *(Share(i, 3) for i in range(3)))
    whole, *parts = await asyncio.gather(
        *(driven(Loopback(plan=QUICK.steps), plan, share) for share in shares)
    )
    indices = sorted(r.index for part in parts for r in part.results)
    assert indices == sorted(r.index for r in whole.results)


async def test_a_closed_loop_never_has_more_streams_than_users(tmp_path: Path) -> None:
    server = Loopback(plan=QUICK.steps)
    part = await driven(server, config(tmp_path, arrivals=Closed(concurrency=3, listen=False)))
    edges = sorted(
        [(r.started_s, 1) for r in part.results]
        + [(r.started_s + r.e2e_s, -1) for r in part.results]
    )
    alive = peak = 0
    for _, step in edges:
        alive += step
        peak = max(peak, alive)
    assert peak == 3
    assert len(part.results) > 10


async def test_listening_users_wait_until_they_have_heard_everything(tmp_path: Path) -> None:
    server = Loopback(plan=lambda _text: [Step(0.0, 4800)])  # 0.3 s, sent at once
    part = await driven(server, config(tmp_path, arrivals=Closed(concurrency=1)))
    starts = sorted(r.started_s for r in part.results)
    assert 2 <= len(starts) <= 3
    assert all(b - a >= 0.3 for a, b in pairwise(starts))


@pytest.mark.parametrize(("rude", "asked"), [(False, 1), (True, 2)])
async def test_a_user_who_is_refused_comes_back_when_told_unless_it_is_rude(
    tmp_path: Path, rude: bool, asked: int
) -> None:
    server = Loopback(refuse=lambda _text: Refusal(429, "overloaded", retry_after_s=1))
    part = await driven(server, config(tmp_path, arrivals=Closed(concurrency=1, rude=rude)))
    assert len(part.results) == asked


@pytest.mark.parametrize(("protocol", "sockets"), [("http", 0), ("ws", 1)])
async def test_a_user_who_is_refused_does_not_ask_in_a_busy_loop_and_keeps_its_socket(
    tmp_path: Path, protocol: Protocol, sockets: int
) -> None:
    server = Loopback(refuse=lambda _text: Refusal(429, "overloaded"))
    target = Target(protocol=protocol)
    part = await driven(server, config(tmp_path, arrivals=Closed(concurrency=1), target=target))
    assert [one.outcome for one in part.results] == ["refused"] * 2
    assert server.sockets == sockets


async def test_what_still_runs_after_the_drain_counts_as_unfinished(tmp_path: Path) -> None:
    server = Loopback(plan=lambda _text: [Step(30.0, 160)])
    plan = config(tmp_path, arrivals=Poisson(rate=10.0), drain_s=0.1)
    part = await driven(server, plan)
    assert part.results
    assert {r.error for r in part.results} == {"unfinished"}


async def test_audio_is_kept_when_asked_for(tmp_path: Path) -> None:
    target = Target(protocol="ws")
    plan = config(tmp_path, arrivals=Poisson(rate=10.0), wav=True, target=target)
    part = await driven(Loopback(plan=QUICK.steps), plan)
    files = sorted((tmp_path / "wav").glob("*.wav"))
    assert len(files) == len(part.results)
    first, stream = min(part.results, key=lambda r: r.index), WavStream()
    assert len(stream.feed(files[0].read_bytes())) == 2 * sum(first.trace_samples)
    assert stream.layout == Layout(sample_rate=16_000, channels=1)


def test_health_takes_the_busiest_process_and_all_lags() -> None:
    watches = [Watch((0.0, 0.001), 0.2), Watch((0.03, 0.04), 0.9)]
    found = health(watches, [0.0, 0.002])
    assert found.cpu_share == 0.9
    assert found.loop_lag_max_s == 0.04
    assert found.loop_lag_p50_s == pytest.approx(0.0155)
    assert not found.trustworthy
    assert health(watches[:1], []).trustworthy
