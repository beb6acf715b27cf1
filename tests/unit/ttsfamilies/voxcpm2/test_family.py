"""VoxCPM2's prompts, ends, voices and adapters."""

import copy
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from tests.parity.material import wav
from tests.unit.ttsfamilies.brief import brief
from tests.unit.ttsfamilies.test_conformance import Bench, request, same
from tests.unit.ttsfamilies.voxcpm2.tiny import parts, tiny
from ttscommon.cluster.adapters.peft import Files, Lora
from ttscommon.engine.checkpoint import VAE, CheckpointError
from ttscommon.engine.runtime import Finished
from ttscommon.wire.errors import InvalidAdapter, TextTooLong
from ttscommon.wire.fields import Arrays, Derived, concatenate, cut, rows
from ttscommon.wire.messages import Reference, SpeechRequest
from ttscommon.wire.parameters import AdapterRef
from ttscommon.wire.pieces import Text
from ttsfamilies.codecs import load as load_codec
from ttsfamilies.talkers import load
from ttsfamilies.voxcpm2.family import Voxcpm2
from ttsfamilies.voxcpm2.request import AUDIO_STARTS, RECORDING_ENDS, RECORDING_STARTS, VoxcpmStream
from ttsfamilies.voxcpm2.synthetic import write_checkpoint

LONG = "The end is odd. " * 20
HEARD: Arrays = {
    "reference": np.full((3, 4, 8), 2.0, np.float32),
    "prompt": np.full((2, 4, 8), 3.0, np.float32),
}
SOUND = "0" * 16 + "-" + "0" * 64
RECORDED = (RECORDING_STARTS, 0, 0, 0, RECORDING_ENDS)
ALONE = (0, 2, 2, 2, 0)


def opened(model: Voxcpm2, text: str = "To end.", **asked: Any) -> VoxcpmStream:
    reference = HEARD if asked.get("reference") else None
    prepared = model.prepare(SpeechRequest("r", "m", "", text, **asked), Derived(reference))
    stream = model.open(prepared)
    stream.feed(list(prepared.read([Text(text)], final=True)), final=True)
    return stream


def told(stream: VoxcpmStream) -> tuple[list[int], list[float]]:
    """Ids of a prompt, and of each position a patch's first value."""
    plan = stream.plan(0)
    assert plan is not None
    inputs = stream.inputs(plan)
    assert (inputs["audio"] == (inputs["patch"][:, 0, 0] != 0)).all()
    return inputs["id"].tolist(), inputs["patch"][:, 0, 0].tolist()


def ids(text: str) -> list[int]:
    return parts()[2].ids(text)


def spoken(
    model: Voxcpm2, text: str = LONG, restored: Arrays | None = None, **asked: Any
) -> Arrays:
    bench = Bench(model, model.depth)
    heard = bench.open(request("r", text, **asked), restored)
    bench.run()
    assert isinstance(heard.end, Finished), heard.end
    return heard.arrays


@pytest.mark.parametrize(
    ("asked", "wanted", "heard"),
    [
        ({}, ("To end.", AUDIO_STARTS), ()),
        ({"instructions": "one old singer"}, ("(one old singer)To end.", AUDIO_STARTS), ()),
        *(
            ({"reference": Reference(SOUND, *words)}, (*RECORDED, "To end.", AUDIO_STARTS), ALONE)
            for words in ((), ("Odd", True))
        ),
        # Of known words it is gone on from.
        ({"reference": Reference(SOUND, "Odd, ")}, ("Odd, To end.", AUDIO_STARTS, 0, 0), (3, 3)),
    ],
)
def test_what_is_told_and_heard_before_speech(
    asked: dict[str, Any], wanted: Sequence[str | int], heard: Sequence[float]
) -> None:
    said, patches = told(opened(tiny(), **asked))
    assert said == [i for part in wanted for i in (ids(part) if isinstance(part, str) else [part])]
    at = len(said) - 2 if heard == (3, 3) else 0
    assert patches == [0.0] * at + [*heard] + [0.0] * (len(said) - at - len(heard))


def test_chinese_is_told_a_character_at_a_time() -> None:
    one, two = (ids(character)[-1] for character in "\u4f60\u597d")
    assert ids("\u4f60\u597d") == [one, two]
    assert ids("\u597d\u4f60\u597d")[-3:] == [two, one, two]


def test_speech_has_four_patches_at_the_least() -> None:
    net = copy.deepcopy(parts()[0])
    net.stop.weight[0], net.stop.weight[1] = -1.0, 1.0
    found = spoken(Voxcpm2("m", net, *parts()[1:]), "To end.")
    assert found["last"].tolist() == [0, 0, 0, 1]


def test_guidance_changes_what_is_said() -> None:
    plain = spoken(tiny(6), "To end.")
    led = spoken(tiny(6), "To end.", extra_params={"cfg_value": 4.0})
    assert not np.array_equal(plain["patch"][0], led["patch"][0])


def test_later_passages_go_on_from_the_first() -> None:
    stream = opened(tiny(5), LONG)
    first = np.full((4, 4, 8), 5.0, np.float32)
    ended: Arrays = {"patch": first, "last": np.array([0, 0, 0, 1], np.uint8)}
    before = stream.passage.length
    stream.accept(before + 3, ended, ended=True)
    said, patches = told(stream)
    assert patches[-5:] == [0, 5, 5, 5, 5]
    assert said[-5] == AUDIO_STARTS
    assert len(said) > before + 4


def test_passages_of_a_recorded_voice_begin_with_the_recording() -> None:
    stream = opened(tiny(5), LONG, reference=Reference(SOUND))
    ended: Arrays = {
        "patch": np.full((1, 4, 8), 5.0, np.float32),
        "last": np.ones(1, np.uint8),
    }
    stream.accept(stream.passage.length, ended, ended=True)
    said, patches = told(stream)
    assert said[0] == RECORDING_STARTS
    assert 5.0 not in patches


def test_resumed_anywhere_later_passages_are_the_same() -> None:
    whole = spoken(tiny(5))
    assert len(np.unique(whole["passage"])) > 1
    first = int(np.count_nonzero(whole["passage"] == 0))
    for at in (1, first, first + 1, rows(whole) - 1):
        rest = spoken(tiny(5), restored=cut(whole, 0, at))
        same(concatenate([cut(whole, 0, at), rest]), whole)


def test_a_sentence_that_does_not_fit_is_refused() -> None:
    model = tiny()
    model.fit(64)
    with pytest.raises(TextTooLong, match="split it"):
        opened(model, "one and " * 40)


def test_a_recording_is_padded_to_whole_patches_at_either_end() -> None:
    model = tiny()
    samples = (8000 * np.sin(np.arange(17_600) / 9)).astype(np.int16)
    found = model.derive(wav(samples, 16_000))
    assert found["reference"].shape == found["prompt"].shape == (7, 4, 8)
    assert not np.array_equal(found["reference"], found["prompt"])
    exact = model.derive(wav(np.resize(samples, 7 * 2560), 16_000))
    assert np.array_equal(exact["reference"], exact["prompt"])


def adapter(number: int, rank: int = 2, **changes: Any) -> Files:
    """Of everything that may be adapted, as the package saves it."""
    random = np.random.default_rng(number)
    model = Voxcpm2("m", copy.deepcopy(parts()[0]), *parts()[1:])
    model.adapt(1, 8)
    assert model.adapters is not None
    pairs = {}
    for name, (outputs, inputs) in model.adapters.modules.items():
        pairs[f"{name}.lora_A"] = random.standard_normal((rank, inputs)).astype(np.float32)
        pairs[f"{name}.lora_B"] = random.standard_normal((outputs, rank)).astype(np.float32)
    said = {"lora_config": {"enable_lm": True, "r": rank, "alpha": rank / 4, **changes}}
    return Files.of(json.dumps(said).encode(), save(pairs))


@cache
def adapted(numbers: Sequence[int]) -> Voxcpm2:
    """With these adapters held, in this order."""
    model = brief(Voxcpm2("m", copy.deepcopy(parts()[0]), *parts()[1:]), 6)
    model.adapt(4, 8)
    assert model.adapters is not None
    for slot, number in enumerate(numbers):
        model.adapters.put(slot, model.adapters.fitted(Lora.parse(adapter(number), 8)))
    return model


def test_rows_with_adapters_of_the_package_share_a_batch() -> None:
    refs = [None, *(AdapterRef(f"a{number}", adapter(number).digest) for number in (1, 2))]
    alone = [
        spoken(adapted((number,)) if number else tiny(6), "To end.", adapter=one)
        for number, one in enumerate(refs)
    ]
    bench = Bench(adapted((2, 1)))
    heard = [bench.open(request(f"{n}", "To end.", adapter=one)) for n, one in enumerate(refs)]
    bench.run()
    for one, found in zip(alone, heard, strict=True):
        same(found.arrays, one)
    assert len({one["patch"][:4].tobytes() for one in alone}) == 3


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"use_dora": True}, "use_dora"), ({"r": 3}, "rank 3"), ({"r": 0}, "r of"), ({"r": "2"}, "r")],
)
def test_an_adapter_of_the_package_that_is_not_served_is_refused(
    changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidAdapter, match=named):
        Lora.parse(adapter(1, **changes), 8)


def test_a_folder_without_its_vae_says_how_to_make_it(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / VAE).unlink()
    for kind in (load, load_codec):
        with pytest.raises(CheckpointError, match="antiphon convert"):
            kind("m", tmp_path)
