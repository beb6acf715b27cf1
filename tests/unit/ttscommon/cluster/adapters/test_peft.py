"""PEFT's format: what of it is read, and that hostile files are refused by name."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from tests.adapters import config, files, tensors, write
from ttscommon.cluster.adapters.config import LoraConfig
from ttscommon.cluster.adapters.peft import CONFIG, WEIGHTS, Files, Lora
from ttscommon.wire.errors import InvalidAdapter

SIZES = {"model.layers.0.self_attn.q_proj": (6, 4), "model.layers.1.mlp.up_proj": (5, 4)}
Q, UP = SIZES


def parsed(weights: dict[str, Any] | bytes | None = None, **told: Any) -> Lora:
    data = weights if isinstance(weights, bytes) else save(weights or tensors(SIZES, 2))
    said = {name: value for name, value in config(2, **told).items() if value != "absent"}
    return Lora.parse(Files.of(json.dumps(said).encode(), data), most_rank=64)


def test_scale_is_alpha_over_the_rank_or_over_its_root() -> None:
    assert parsed().pairs[Q].scale == 8.0
    assert parsed(use_rslora=True).pairs[Q].scale == pytest.approx(16 / 2**0.5)


def test_patterns_name_modules_by_their_end() -> None:
    weights = tensors({Q: SIZES[Q]}, 2) | tensors({UP: SIZES[UP]}, 3)
    found = parsed(weights, rank_pattern={"up_proj": 3}, alpha_pattern={"layers.1.mlp.up_proj": 6})
    assert (found.pairs[Q].rank, found.pairs[Q].scale) == (2, 8.0)
    assert (found.pairs[UP].rank, found.pairs[UP].scale) == (3, 2.0)
    assert found.rank == 3


def test_a_pattern_of_half_a_name_fits_nothing() -> None:
    assert parsed(rank_pattern={"p_proj": 1}, alpha_pattern={"^q_proj": 1}).pairs[Q].scale == 8.0
    assert parsed(alpha_pattern={f"^{Q}": 1}).pairs[Q].scale == 0.5


def test_the_scale_is_in_the_second_half() -> None:
    given = tensors(SIZES, 2)
    a, b = parsed(given).pairs[Q].arrays()
    assert np.array_equal(a, given[f"base_model.model.{Q}.lora_A.weight"])
    assert np.array_equal(b, given[f"base_model.model.{Q}.lora_B.weight"] * 8)


def test_half_precision_is_read() -> None:
    given = tensors(SIZES, 2)
    half = parsed({name: array.astype(np.float16) for name, array in given.items()})
    wanted = given[f"base_model.model.{Q}.lora_A.weight"].astype(np.float16)
    assert np.array_equal(half.pairs[Q].arrays()[0], wanted.astype(np.float32))
    cut = {name: array.view(np.uint32) >> 16 for name, array in given.items()}
    brain = parsed(_as_brain(cut))
    known = (cut[f"base_model.model.{Q}.lora_A.weight"] << 16).view(np.float32)
    assert np.array_equal(brain.pairs[Q].arrays()[0], known)


def _as_brain(cut: dict[str, Any]) -> bytes:
    header, data = {}, b""
    for name, array in cut.items():
        part = array.astype("<u2").tobytes()
        places = [len(data), len(data) + len(part)]
        header[name] = {"dtype": "BF16", "shape": list(array.shape), "data_offsets": places}
        data += part
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    ("told", "named"),
    [
        ({"peft_type": "LOHA"}, "peft_type"),
        ({"peft_type": "absent"}, "peft_type"),
        ({"use_dora": True}, "use_dora"),
        ({"modules_to_save": ["codec_head"]}, "modules_to_save"),
        ({"bias": "all"}, "bias"),
        ({"lora_bias": True}, "lora_bias"),
        ({"fan_in_fan_out": True}, "fan_in_fan_out"),
        ({"trainable_token_indices": [1]}, "trainable_token_indices"),
        ({"target_parameters": ["w"]}, "target_parameters"),
        ({"layer_replication": [[0, 1]]}, "layer_replication"),
        ({"alora_invocation_tokens": [1]}, "alora_invocation_tokens"),
        ({"something_of_tomorrow": {"x": 1}}, "something_of_tomorrow"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights"),
        ({"init_lora_weights": "loftq"}, "init_lora_weights"),
        ({"r": 0}, "r of"),
        ({"r": "2"}, "r of"),
        ({"r": True}, "r of"),
        ({"r": 3}, "rank 3"),
        ({"r": 10_000}, "at most 64"),
        ({"lora_alpha": "x"}, "lora_alpha"),
        ({"lora_alpha": 1e300}, "lora_alpha"),
        ({"use_rslora": 1}, "use_rslora"),
        ({"rank_pattern": {"(a+)+$": 2}}, "rank_pattern"),
        ({"rank_pattern": [1]}, "rank_pattern"),
        ({"alpha_pattern": {"q_proj": None}}, "alpha_pattern"),
        ({"target_modules": ["k_proj"]}, "target_modules"),
        ({"target_modules": 7}, "target_modules"),
    ],
)
def test_what_is_not_served_is_refused_by_name(told: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidAdapter, match=named):
        parsed(**told)


@pytest.mark.parametrize(
    "name",
    [
        "lora_A.weight",
        "base_model.model.q_proj.weight",
        "base_model.model.../../etc/passwd.lora_A.weight",
        "base_model.model.a/b.lora_A.weight",
        "base_model.model.q.lora_embedding_A",
        "base_model.model.q.lora_magnitude_vector",
        "base_model.model.q.lora_A.bias",
        "base_model.model.__class__..x.lora_A.weight",
        "\x00",
        "x" * 10_000,
        "base_model.model." + "a." * 500_000 + "lora_A.weight",
    ],
)
def test_other_tensors_are_refused_by_name(name: str) -> None:
    with pytest.raises(InvalidAdapter, match="not served") as refused:
        parsed(tensors(SIZES, 2) | {name: np.zeros((2, 4), np.float32)})
    assert len(refused.value.message) < 400


def test_halves_without_each_other_or_of_other_shapes_are_refused() -> None:
    for harm in (
        {f"base_model.model.{Q}.lora_B.weight": None},
        {f"base_model.model.{Q}.lora_B.weight": np.zeros((6, 3), np.float32)},
        {f"base_model.model.{Q}.lora_A.weight": np.zeros((3, 4), np.float32)},
        {f"base_model.model.{Q}.lora_A.weight": np.zeros((2, 4, 1), np.float32)},
        {f"base_model.model.{Q}.lora_A.weight": np.zeros((2, 4), np.int32)},
        {f"base_model.model.{Q}.lora_A.weight": np.zeros((2, 0), np.float32)},
    ):
        given = tensors(SIZES, 2) | harm
        with pytest.raises(InvalidAdapter):
            parsed({name: array for name, array in given.items() if array is not None})


@pytest.mark.parametrize(
    ("half", "value"), [("A", np.nan), ("A", np.inf), ("B", -np.inf), ("B", 3e38)]
)
def test_values_that_are_not_finite_once_they_are_scaled_are_refused(
    half: str, value: float
) -> None:
    given = tensors(SIZES, 2)
    given[f"base_model.model.{UP}.lora_{half}.weight"][1, 1] = value
    with pytest.raises(InvalidAdapter, match="finite"):
        parsed(given).check_values()


WHOLE = save(tensors(SIZES, 2))


@pytest.mark.parametrize("length", [0, 3, 8, 40, len(WHOLE) // 2, len(WHOLE) - 1])
def test_truncated_weights_are_refused(length: int) -> None:
    with pytest.raises(InvalidAdapter):
        parsed(WHOLE[:length])


def _with(change: dict[str, Any]) -> bytes:
    length = struct.unpack("<Q", WHOLE[:8])[0]
    header = json.loads(WHOLE[8 : 8 + length])
    name = next(name for name in header if name != "__metadata__")
    header[name] = header[name] | change
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + WHOLE[8 + length :]


@pytest.mark.parametrize(
    "data",
    [
        WHOLE + b"more",
        b"\xff" * 64,
        struct.pack("<Q", 1 << 62) + b"{}",
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 4) + b"null",
        struct.pack("<Q", 200_000) + b"[" * 200_000,
        b"\x80\x04\x95" + b"\x00" * 100,
        _with({"data_offsets": [0, 4]}),
        _with({"data_offsets": [-4, 28]}),
        _with({"data_offsets": [0, 1 << 70]}),
        _with({"data_offsets": "x"}),
        _with({"shape": [1 << 62, 1 << 62]}),
        _with({"shape": [-2, -4]}),
        _with({"shape": [True, 8]}),
        _with({"shape": [9] * 400_000}),  # whose product takes minutes
        _with({"dtype": "F64"}),
        _with({"dtype": None}),
    ],
)
def test_damaged_and_foreign_files_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidAdapter):
        parsed(data)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b" " * 300_000])
def test_a_config_that_is_none_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidAdapter, match="adapter_config"):
        Lora.parse(Files.of(text, WHOLE), 64)


def test_packed_files_come_back_with_the_same_digest() -> None:
    one = files(SIZES, 2)
    assert Files.unpacked(one.packed()) == one
    assert files(SIZES, 2, lora_alpha=17).digest != one.digest
    for damaged in (b"", one.packed()[:20], b"\xff" * 30):
        with pytest.raises(InvalidAdapter):
            Files.unpacked(damaged)


def test_a_folder_is_read_within_its_limit_and_pickles_are_not(tmp_path: Path) -> None:
    one = files(SIZES, 2)
    folder = write(tmp_path / "a", one)
    assert Files.read(folder, 1 << 20) == one
    with pytest.raises(InvalidAdapter, match="over 100 bytes"):
        Files.read(folder, 100)
    (folder / WEIGHTS).rename(folder / "adapter_model.bin")
    with pytest.raises(InvalidAdapter, match="pickle"):
        Files.read(folder, 1 << 20)
    (folder / CONFIG).unlink()
    with pytest.raises(InvalidAdapter, match="cannot be read"):
        Files.read(folder, 1 << 20)


def test_a_config_of_twenty_thousand_targets_is_read_like_a_short_one() -> None:
    """Each is looked up: of thousands of modules, none is held against all of them."""
    told = {"target_modules": [f"m{n}" for n in range(20_000)] + ["q_proj"], "r": 4}
    made = LoraConfig.parse(json.dumps({"peft_type": "LORA", **told}).encode())
    for layer in range(8000):
        assert made.of(f"layers.{layer}.q_proj")[0] == 4


def test_of_two_patterns_that_fit_the_first_counts() -> None:
    ranks = {"b.q_proj": 2, "q_proj": 8, "^a.b.q_proj": 16}
    told = {"peft_type": "LORA", "rank_pattern": ranks}
    made = LoraConfig.parse(json.dumps(told).encode())
    assert [made.of(name)[0] for name in ("a.b.q_proj", "q_proj", "aq_proj")] == [2, 8, 8]
