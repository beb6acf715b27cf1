"""Pickled checkpoints become safetensors in a process with limits, or a reason, and never run."""

import json
import os
import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ttscommon.engine import conversion
from ttscommon.engine.checkpoint import CheckpointError, tensor_files
from ttscommon.engine.conversion import ConversionLimits, _pickles, convert
from ttscommon.engine.conversion.child import trouble


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pickles are opened by this process: to start another takes seconds, which two tests spend."""

    def convert_all(files: Sequence[tuple[Path, Path]], *_: object) -> None:
        assert [trouble([source], target) for source, target in files] == [{}] * len(files)

    monkeypatch.setattr(conversion, "_convert_all", convert_all)


def network(seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {"a.weight": torch.randn(4, 3, generator=generator), "a.bias": torch.zeros(3)}


def same(path: Path, tensors: dict[str, torch.Tensor]) -> bool:
    found = load_file(path)
    return found.keys() == tensors.keys() and all(torch.equal(found[n], tensors[n]) for n in found)


def test_a_pickle_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    torch.save(network(), tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=f"antiphon convert {tmp_path}"):
        tensor_files(tmp_path)
    assert convert(tmp_path) == [tmp_path / "model.safetensors"]
    assert tensor_files(tmp_path) == [tmp_path / "model.safetensors"]
    assert same(tmp_path / "model.safetensors", network())


def test_books_around_the_weights_are_left_out_and_shared_memory_is_parted(tmp_path: Path) -> None:
    weights = network()
    weights["tied"], weights["view"] = weights["a.weight"], torch.arange(100.0)[10:12]
    source, target = tmp_path / "epoch_3.pth", tmp_path / "model.safetensors"
    torch.save({"epoch": 3, "optimizer": {"lr": 0.1}, "state_dict": weights}, source)
    assert trouble([source], target) == {}
    assert same(target, weights)


@pytest.mark.usefixtures("here")
def test_a_codec_beside_its_talker_keeps_its_name(tmp_path: Path) -> None:
    save_file(network(1), tmp_path / "model.safetensors")
    torch.save({"state_dict": network()}, tmp_path / "audiovae.pth")
    assert _pickles(tmp_path, "audiovae.pth") == _pickles(tmp_path, "")
    assert convert(tmp_path) == [tmp_path / "audiovae.safetensors"]
    assert same(tmp_path / "audiovae.safetensors", network())
    assert same(tmp_path / "model.safetensors", network(1))


@pytest.mark.slow
def test_shards_stay_shards_with_an_index(tmp_path: Path) -> None:
    names = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
    torch.save({"a": torch.ones(2)}, tmp_path / names[0])
    torch.save({"b": torch.zeros(3)}, tmp_path / names[1])
    index = {"weight_map": {"a": names[0], "b": names[1]}}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    (tmp_path / "config.json").write_text("{}")
    target = tmp_path / "elsewhere"
    convert(tmp_path, into=target)
    assert (target / "config.json").exists()
    assert not list(tmp_path.glob("*.safetensors"))
    made = tensor_files(target)
    assert [path.name for path in made] == [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    ]
    assert same(made[1], {"b": torch.zeros(3)})


class Trap:
    """Runs a command wherever it is loaded by pickle."""

    def __init__(self, sprung: Path) -> None:
        self._sprung = sprung

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self._sprung}",)


def test_what_holds_more_than_weights_is_named_and_never_run(tmp_path: Path) -> None:
    sprung, path = tmp_path / "sprung", tmp_path / "model.pt"
    cases = {
        "it holds more than weights (posix.system)": lambda: torch.save({"a": Trap(sprung)}, path),
        "it holds more than weights": lambda: path.write_bytes(
            pickle.dumps(Trap(sprung), protocol=2)
        ),
        "damaged": lambda: path.write_bytes(b"no pickle"),
        "no tensors by name": lambda: torch.save({"epoch": 3}, path),
    }
    for reason, write in cases.items():
        write()
        assert reason in trouble([path], tmp_path / "model.safetensors")["error"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_small_file_that_asks_for_terabytes_meets_a_limit_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "model.pt"
    torch.save({"a": torch.ones(1).expand(1 << 42)}, path)
    with pytest.raises(CheckpointError, match=rf"{path}.* more memory than a file of its size"):
        convert(tmp_path)
    assert list(tmp_path.iterdir()) == [path]


def test_a_conversion_has_a_time_and_a_size(tmp_path: Path) -> None:
    torch.save(network(), tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match=r"longer than 0\.01 s"):
        convert(tmp_path, limits=ConversionLimits(seconds=0.01))
    with pytest.raises(CheckpointError, match="at most 10 are read"):
        convert(tmp_path, limits=ConversionLimits(most_bytes=10))
    assert list(tmp_path.iterdir()) == [tmp_path / "model.pt"]


def test_of_several_pickles_one_is_chosen(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nothing to convert"):
        convert(tmp_path)
    for name in ("one.pt", "two.pth"):
        torch.save(network(), tmp_path / name)
    with pytest.raises(CheckpointError, match=r"--file \(one\.pt, two\.pth\)"):
        convert(tmp_path)
    with pytest.raises(CheckpointError, match="is no pickle in"):
        convert(tmp_path, file="../one.pt")
    assert _pickles(tmp_path, "two.pth") == [(tmp_path / "two.pth", "model.safetensors")]


@pytest.mark.usefixtures("here")
def test_parts_of_one_model_are_converted_together_under_one_index(tmp_path: Path) -> None:
    for name in ("llm", "flow", "hift"):
        torch.save({f"{name}.weight": torch.ones(2)}, tmp_path / f"{name}.pt")
    torch.save({"anna": torch.ones(1)}, tmp_path / "spk2info.pt")
    convert(tmp_path)
    parts = ["flow.safetensors", "hift.safetensors", "llm.safetensors"]
    assert sorted(path.name for path in tensor_files(tmp_path)) == parts


@pytest.mark.slow
def test_voices_of_a_tensor_each_become_one_file_by_their_names(tmp_path: Path) -> None:
    torch.save(network(), tmp_path / "model.pth")
    (tmp_path / "voices").mkdir()
    packs = {"af_one": torch.ones(3, 2), "am_two": torch.zeros(3, 2)}
    for name, pack in packs.items():
        torch.save(pack, tmp_path / "voices" / f"{name}.pt")
    made = convert(tmp_path, into=tmp_path / "made")
    assert [path.name for path in made] == ["model.safetensors", "voices.safetensors"]
    assert same(made[0], network())
    assert same(made[1], packs)
    (tmp_path / "voices" / "af_two.pt").write_bytes(pickle.dumps(os.getcwd))
    with pytest.raises(CheckpointError, match=r"af_two\.pt cannot be converted"):
        convert(tmp_path)
    assert not list(tmp_path.glob("*.safetensors"))


@pytest.mark.slow
def test_a_chatterbox_gets_an_index_over_its_talker_and_what_is_beside_it(tmp_path: Path) -> None:
    for name in ("t3_cfg", "t3_mtl23ls_v2", "ve"):
        save_file({f"{name}.weight": torch.ones(2)}, tmp_path / f"{name}.safetensors")
    torch.save({"flow.weight": torch.ones(3)}, tmp_path / "s3gen.pt")
    voice = {"t3": {"speaker_emb": torch.ones(1, 4), "clap": None}, "gen": {"ids": torch.ones(3)}}
    torch.save(voice, tmp_path / "conds.pt")
    made = convert(tmp_path)
    assert [path.name for path in made] == [
        "s3gen.safetensors",
        "conds.safetensors",
        "model.safetensors.index.json",
    ]
    stems = [path.stem for path in tensor_files(tmp_path)]
    assert stems == ["conds", "s3gen", "t3_cfg", "ve"]
    assert load_file(tmp_path / "conds.safetensors").keys() == {"t3.speaker_emb", "gen.ids"}
    elsewhere = tmp_path / "elsewhere"
    convert(tmp_path, file="t3_mtl23ls_v2.safetensors", into=elsewhere)
    stems = [path.stem for path in tensor_files(elsewhere)]
    assert stems == ["conds", "s3gen", "t3_mtl23ls_v2", "ve"]
    with pytest.raises(CheckpointError, match="t3_cfg"):
        convert(tmp_path, file="t3_nano_v1.safetensors")
