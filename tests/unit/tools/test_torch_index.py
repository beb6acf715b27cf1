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


def pick(
    wanted: str, accelerator: str, *, reachable: bool, offer: Sequence[Wheel]
) -> tuple[Choice, list[str | None]]:
    """The choice, and the indexes that were asked for a plan."""
    asked: list[str | None] = []

    def plan(index: str | None) -> Sequence[Wheel]:
        asked.append(index)
        return offer

    choice, _ = choose(wanted, accelerator, lambda index: reachable, plan)
    return choice, asked


def test_a_machine_without_a_gpu_takes_the_cpu_index() -> None:
    choice, asked = pick("", "cpu", reachable=True, offer=CPU)
    assert choice.index == CPU_INDEX
    assert asked == [CPU_INDEX]


def test_a_machine_with_a_gpu_takes_the_public_index() -> None:
    choice, _ = pick("", "cuda", reachable=True, offer=CUDA)
    assert choice.index is None


@pytest.mark.parametrize("accelerator", ["cpu", "cuda"])
def test_the_users_index_wins_whatever_the_machine_has(accelerator: str) -> None:
    choice, _ = pick("https://mine", accelerator, reachable=False, offer=CUDA)
    assert choice.index == "https://mine"


def test_none_means_pips_own_configuration_even_if_that_is_cuda() -> None:
    choice, asked = pick("none", "cpu", reachable=True, offer=CUDA)
    assert choice.index is None
    assert asked == [None]


def test_without_the_cpu_index_a_cpu_build_found_elsewhere_will_do() -> None:
    choice, _ = pick("", "cpu", reachable=False, offer=LOCAL)
    assert choice.index is None
    assert "cannot be reached" in choice.reason


def test_a_machine_without_a_gpu_never_gets_cuda_unasked() -> None:
    with pytest.raises(OnlyCuda, match=r"940 MB.*\n.*TORCH_INDEX=<url>\n.*TORCH_INDEX=none"):
        pick("", "cpu", reachable=False, offer=CUDA)


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
