"""Packed weights: what loses nothing says what the reference says, and int8 stays near."""

from pathlib import Path

import pytest
import torch

from tests.parity.families import FAMILIES
from tests.parity.packed import agreement
from tests.parity.runner import Loaded, alone, batched, compare
from ttscommon.engine.nn.packed import packing


def test_two_bytes_that_lose_nothing_say_what_the_reference_says(tmp_path: Path) -> None:
    """A checkpoint that is stored in bfloat16."""
    with packing("auto") as packed:
        loaded = Loaded(FAMILIES["qwen3_tts"], tmp_path, "narrow")
    assert packed is not None
    assert packed.layers
    assert packed.bytes < packed.wide_bytes * 0.53
    for case in loaded.cases:
        compare(loaded.subject, case, alone(loaded, case))


def test_an_int8_talker_says_the_same_alone_and_in_a_batch(tmp_path: Path) -> None:
    subject = FAMILIES["csm"]
    with packing("int8"):
        loaded = Loaded(subject, tmp_path, subject.checkpoints[0])
    together = batched(loaded)
    for case in loaded.cases:
        apart, found = alone(loaded, case), together[case.name][1]
        assert apart.keys() == found.keys()
        assert all((apart[name] == found[name]).all() for name in found)


@pytest.mark.parametrize("family", ["orpheus", pytest.param("csm", marks=pytest.mark.slow)])
@torch.inference_mode()
def test_an_int8_talker_says_most_of_the_numbers_that_float32_says(
    family: str, tmp_path: Path
) -> None:
    found = agreement(family, "int8", FAMILIES[family].checkpoints[0], tmp_path)
    assert found is not None
    assert found.numbers > 0.5 * found.asked > 1
