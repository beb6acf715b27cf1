"""Engines that are loaded at their first use: one at a time, within a limit, unloaded between."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from tests.waits import TIMEOUT_S, until
from ttscommon.engine import lazy
from ttscommon.engine.lazy import LazyEngine, ModelMemory, bytes_held
from ttscommon.wire.errors import ModelFailed

KIB = 1024


@dataclass(eq=False)
class Loaded:
    """Holds an array, and is stopped once."""

    weights: np.ndarray = field(default_factory=lambda: np.zeros(KIB, np.uint8))
    error: BaseException | None = None
    stopped: int = 0

    def start(self) -> None:
        pass

    def stop(self) -> None:
        self.stopped += 1


def model(
    name: str, memory: ModelMemory, build: Callable[[], Loaded] = Loaded
) -> LazyEngine[Loaded]:
    return LazyEngine(name, build, memory, KIB)


async def used(one: LazyEngine[Loaded]) -> Loaded:
    async with one.use() as engine:
        return engine


async def test_many_users_share_one_load() -> None:
    one = model("a", ModelMemory())
    first, *others = await asyncio.gather(*(used(one) for _ in range(5)))
    assert others == [first] * 4
    assert one.held_bytes == KIB
    assert await used(one) is first


async def test_the_least_recently_used_model_makes_room() -> None:
    memory = ModelMemory(limit_bytes=2 * KIB)
    models = [model(name, memory) for name in "abc"]
    for one in (models[0], models[1], models[0], models[2]):
        await used(one)
    assert [one.engine is not None for one in models] == [True, False, True]
    assert [one.held_bytes for one in models] == [KIB, 0, KIB]


async def test_a_model_with_streams_is_not_unloaded_and_its_end_lets_the_next_in() -> None:
    memory = ModelMemory(limit_bytes=KIB)
    first, second = model("a", memory), model("b", memory)
    async with first.use() as engine:
        waiting = asyncio.create_task(used(second))
        while not memory._turn.locked():
            await asyncio.sleep(0)
        assert engine.stopped == 0
    async with asyncio.timeout(TIMEOUT_S):
        await waiting
    assert (first.engine, engine.stopped) == (None, 1)


async def test_a_request_without_room_ends_with_an_error_that_names_its_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lazy, "_ROOM_WAIT_S", 0.01)
    memory = ModelMemory(limit_bytes=KIB)
    first, second = model("a", memory), model("b", memory)
    async with first.use():
        with pytest.raises(ModelFailed, match="no memory for the model 'b'"):
            await used(second)
    await used(second)


async def test_one_model_alone_may_take_more_than_the_limit() -> None:
    memory = ModelMemory(limit_bytes=KIB // 2)
    await used(model("a", memory))


async def test_an_engine_that_died_is_loaded_again_and_one_that_fails_says_so() -> None:
    built = [Loaded(), Loaded()]

    def build() -> Loaded:
        if not built:
            raise OSError("the disk is gone")
        return built.pop()

    one = model("a", ModelMemory(), build)
    first = await used(one)
    first.error = MemoryError()
    second = await used(one)
    assert (second is first, first.stopped) == (False, 1)
    second.error = MemoryError()
    with pytest.raises(ModelFailed, match="'a' cannot be loaded"):
        await used(one)


async def test_a_caller_who_leaves_takes_the_load_from_nobody() -> None:
    one = model("a", ModelMemory())
    leaving = asyncio.create_task(used(one))
    await asyncio.sleep(0)
    staying = asyncio.create_task(used(one))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying is one.engine
    assert one.users == 0


async def test_only_models_that_were_idle_for_long_are_unloaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lazy, "_LOOK_S", 0.01)
    memory = ModelMemory(idle_s=0.0)
    busy, idle = model("a", memory), model("b", memory)
    async with busy.use():
        await used(idle)
        unloading = asyncio.create_task(memory.unload_idle())
        await until(lambda: idle.engine is None)
        assert busy.engine is not None
        unloading.cancel()


def test_memory_is_counted_once_and_not_beyond_what_is_shared() -> None:
    weights = np.zeros((4, KIB), np.uint8)
    shared = {"others": np.zeros(KIB)}
    beside = np.ones(KIB, np.uint8)

    def step() -> tuple[object, object]:
        return shared, beside

    root = {"weights": weights, "row": weights[1], "again": [weights], "step": step}
    assert bytes_held(root, [shared]) == 5 * KIB
    linear = torch.nn.Linear(16, 16)  # storages of tensors count whole
    assert bytes_held([linear, linear.weight[0]]) == 4 * (16 * 16 + 16)
