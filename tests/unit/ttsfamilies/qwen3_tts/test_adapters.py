"""Requests with adapters: as if the model were merged, whoever shares the batch."""

import copy
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from tests.adapters import files
from tests.unit.talker.engine.test_prefixes import SAID, _net, recording
from tests.unit.ttsfamilies.qwen3_tts.tiny import Streamed, _parts, tiny
from tests.unit.ttsfamilies.test_conformance import Bench, Heard, request, same
from ttscommon.cluster.adapters.peft import Files, Lora
from ttscommon.engine.nn.lora import AdapterBank
from ttscommon.engine.runtime import Failed, Finished
from ttscommon.wire.errors import UnknownAdapter
from ttscommon.wire.fields import Arrays, Derived
from ttscommon.wire.messages import Reference, Sampling
from ttscommon.wire.parameters import AdapterRef
from ttscommon.wire.pieces import Text
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.base.talker.base import Family
from ttsfamilies.base.talker.served import ServedFamily
from ttsfamilies.qwen3_tts.config import GenerationConfig
from ttsfamilies.qwen3_tts.family import Qwen3Tts
from ttsfamilies.qwen3_tts.net import talker_sources

ADAPTERS = 4
GREEDY = Sampling(temperature=0.0, subtalker_temperature=0.0, max_new_tokens=9)

SAMPLED = Sampling(max_new_tokens=9)


@cache
def sizes() -> dict[str, tuple[int, int]]:
    """Every module that can be adapted, by its published name."""
    net = _parts()[0]
    return AdapterBank(copy.deepcopy(net), talker_sources(net), 1, 1).modules


@cache
def drawn(number: int) -> Files:
    """The first adapts everything, the others the layers of one part, or a few modules."""
    parts = ["", "talker.model.", "code_predictor", "q_proj"]
    chosen = {name: size for name, size in sizes().items() if parts[number] in name}
    return files(chosen, 4 * (number + 1), seed=number, loud=2.0)


def family_of(numbers: Sequence[int]) -> Qwen3Tts:
    """With these adapters held, in this order."""
    torch.set_num_threads(1)
    net, tokenizer = _parts()
    made = Streamed("m", copy.deepcopy(net), tokenizer, GenerationConfig(max_new_tokens=41))
    made.adapt(ADAPTERS, 16)
    hold(made, numbers)
    return made


def hold(model: TalkerModel, numbers: Sequence[int]) -> None:
    assert model.adapters is not None
    for slot, number in enumerate(numbers):
        fitted = model.adapters.fitted(Lora.parse(drawn(number), 16))
        model.adapters.put(slot, fitted)


def ref(number: int | None) -> AdapterRef | None:
    return None if number is None else AdapterRef(f"a{number}", drawn(number).digest)


def opened(
    bench: Bench,
    adapter: int | None,
    seed: int,
    sampling: Sampling = SAMPLED,
    restored: Arrays | None = None,
) -> Heard:
    told = {"seed": seed, "sampling": sampling, "adapter": ref(adapter)}
    asked = request(f"r{len(bench.heard)}", f"Number {seed} is said.", **told)
    return bench.open(asked, restored)


def spoken(family: Family, adapter: int | None, seed: int, **more: Any) -> Arrays:
    bench = Bench(family, family.depth)
    heard = opened(bench, adapter, seed, **more)
    bench.run()
    assert isinstance(heard.end, Finished)
    return heard.arrays


@cache
def alone(number: int, seed: int, sampling: Sampling = SAMPLED) -> Arrays:
    return spoken(family_of([number]), number, seed, sampling=sampling)


@cache
def plain(seed: int, sampling: Sampling = SAMPLED) -> Arrays:
    """Of a model without any support for adapters."""
    return spoken(tiny(), None, seed, sampling=sampling)


@pytest.mark.parametrize("depth", [0, 1])
def test_a_row_has_the_same_bits_whatever_the_others_are_adapted_by(depth: int) -> None:
    """Four adapters and none in one batch, each as alone; without one as without any support."""
    bench = Bench(ServedFamily(family_of([2, 0, 3, 1]), guards=False), depth)
    chosen = [0, None, 1, 2, None, 3, 0]
    heard = [opened(bench, number, seed) for seed, number in enumerate(chosen)]
    bench.run()
    for seed, (number, one) in enumerate(zip(chosen, heard, strict=True)):
        wanted = plain(seed) if number is None else alone(number, seed)
        assert np.array_equal(one.arrays["codes"], wanted["codes"])


def test_a_successor_whose_slots_are_others_goes_on_with_the_same_adapter() -> None:
    whole = alone(1, 3)
    head = {name: array[:4] for name, array in whole.items()}
    rest = spoken(family_of([0, 2, 1]), 1, 3, restored=head)
    same(rest, {name: array[4:] for name, array in whole.items()})


def test_a_slot_that_is_used_again_holds_nothing_of_the_adapter_before() -> None:
    family = family_of([0])
    hold(family, [3])
    assert np.array_equal(spoken(family, 3, 1)["codes"], spoken(family_of([1, 3]), 3, 1)["codes"])
    with pytest.raises(UnknownAdapter):
        family.prepare(request(adapter=ref(0)))


def test_prompts_that_differ_in_their_adapter_share_nothing() -> None:
    keys = []
    family = Streamed("m", copy.deepcopy(_net()), _parts()[1], GenerationConfig())
    family.adapt(ADAPTERS, 16)
    hold(family, [0, 1])
    for adapter in (0, 1, None):
        said = request(adapter=ref(adapter), sampling=GREEDY)
        cloned = replace(said, reference=Reference("0" * 16 + "-" + "0" * 64, SAID))
        prepared = family.prepare(cloned, Derived(recording(1)))
        stream = family.open(prepared)
        stream.feed(list(prepared.read([Text("Hello.")], final=True)), final=True)
        keys.append(tuple(stream.prefix()))
    assert all(keys)
    assert len(set(keys)) == 3


def test_values_that_break_the_numbers_fail_the_stream_alone() -> None:
    family = family_of([1])
    assert family.adapters is not None
    loud = files(
        {name: size for name, size in sizes().items() if "model.layers" in name}, loud=1e30
    )
    family.adapters.put(1, family.adapters.fitted(Lora.parse(loud, 16)))
    bench = Bench(family)
    sound = opened(bench, 1, 4)
    broken = bench.open(request("loud", adapter=AdapterRef("loud", loud.digest)))
    bench.run()
    assert isinstance(broken.end, Failed)
    assert np.array_equal(sound.arrays["codes"], alone(1, 4)["codes"])
