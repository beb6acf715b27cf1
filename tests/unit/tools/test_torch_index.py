from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.torch_index import (
    CPU_INDEX,
    Choice,
    OnlyCuda,
    Wheel,
    choose,
    describe,
    has_gpu,
    pin,
    size,
)

CPU = [Wheel("torch", "2.13.0+cpu", "https://index/torch.whl", 190_000_000)]
CUDA = [
    Wheel("torch", "2.13.0", "https://index/torch.whl", 520_000_000),
    Wheel("nvidia-cublas", "13.1.1.3", "https://index/cublas.whl", 420_000_000),
]
LOCAL = [Wheel("torch", "2.13.0+cpu", "file:///wheels/torch.whl")]


@pytest.mark.parametrize(
    ("wanted", "accelerator", "reachable", "offer", "index"),
    [
        ("", "cpu", True, CPU, CPU_INDEX),
        ("", "cuda", True, CUDA, None),
        ("https://mine", "cpu", False, CUDA, "https://mine"),  # the user's, whatever is here
        ("https://mine", "cuda", False, CUDA, "https://mine"),
        ("none", "cpu", True, CUDA, None),  # pip's own configuration, even if that is CUDA
        ("", "cpu", False, LOCAL, None),  # a CPU build found elsewhere will do
    ],
)
def test_the_index_follows_the_machine_unless_one_is_asked_for(
    wanted: str, accelerator: str, reachable: bool, offer: Sequence[Wheel], index: str | None
) -> None:
    asked: list[str | None] = []

    def plan(index: str | None) -> Sequence[Wheel]:
        asked.append(index)
        return offer

    choice, _ = choose(wanted, accelerator, lambda index: reachable, plan)
    assert (choice.index, asked[-1:]) == (index, [index])
    assert reachable or wanted or "cannot be reached" in choice.reason


def test_a_machine_without_a_gpu_never_gets_cuda_unasked() -> None:
    with pytest.raises(OnlyCuda, match=r"940 MB.*\n.*TORCH_INDEX=<url>\n.*TORCH_INDEX=none"):
        choose("", "cpu", lambda index: False, lambda index: CUDA)


def test_the_size_counts_what_is_not_here_yet() -> None:
    assert size(CPU) == "190 MB to download"
    assert size(LOCAL) == "nothing to download"
    assert size([Wheel("torch", "2.13.0", "https://index/torch.whl")]) == (
        "1 files of unknown size to download"
    )


def test_the_description_names_version_reason_and_size() -> None:
    assert describe(Choice(None, "as asked"), CPU) == (
        "torch 2.13.0+cpu: as asked; with what it needs, 190 MB to download"
    )
    assert describe(Choice(None, "as asked"), []).startswith("torch, already installed")


def test_a_device_file_without_a_driver_is_no_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvidia0").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not has_gpu(tmp_path)
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert has_gpu(tmp_path)
    (tmp_path / "nvidia0").unlink()
    assert not has_gpu(tmp_path)


def test_the_lock_pins_torch() -> None:
    assert pin().startswith("torch==")
