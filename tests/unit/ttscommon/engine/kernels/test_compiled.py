"""What kernels for processors are compiled with, and where that is kept."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ttscommon.engine.kernels import ahead, compiled, kept
from ttscommon.engine.kernels.ahead import modules


@compiled.compiled(compiled.floats(1), compiled.floats(1))
def exponentials(x: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    for at in range(len(x)):
        out[at] = compiled.exp(x[at])


def test_exp_is_within_two_units_in_the_last_place_and_keeps_its_ends() -> None:
    x = np.linspace(-87, 88, 100_001, dtype=np.float32)
    out = np.empty_like(x)
    exponentials(x, out)
    exact = np.exp(x.astype(np.float64))
    assert (np.abs(out - exact) / np.spacing(exact.astype(np.float32))).max() < 2.0
    exponentials(np.array([np.nan, -np.inf, -200.0, 0.0, np.inf], np.float32), out[:5])
    assert np.isnan(out[0])
    assert 0.0 < out[1] == out[2] < 1e-37
    assert out[3] == 1.0
    assert out[4] > 1e38


def test_setups_compile_every_module_that_holds_kernels_and_none_imports_numba_by_itself() -> None:
    """It is imported behind the choice of its target alone."""
    found = dict(kept.sources())
    assert (
        {
            "ttscommon.engine.kernels.blocks_numba",
            "ttsfamilies.base.kernels.attention_numba",
        }
        <= set(modules())
        == set(found)
    )
    root = Path(__file__).parents[5]
    for path in (p for part in ("libs", "services") for p in (root / part).rglob("*.py")):
        text = path.read_text()
        if "kernels.compiled import" in text:
            assert path.stem.endswith("_numba"), path
        if path != kept.COMPILER:
            assert not re.search(r"^ *(from|import) (numba|llvmlite)", text, re.M), path


def test_every_process_compiles_for_one_target_whichever_kernels_it_imports_first() -> None:
    """Otherwise services compile again what a setup compiled, and in silence."""
    program = (
        "import importlib, sys; importlib.import_module(sys.argv[1]);"
        "from numba.core.registry import cpu_target;"
        "print(cpu_target.target_context.codegen().magic_tuple()[1:])"
    )
    names = ("ttscommon.engine.kernels.products_numba", "ttscommon.engine.kernels.blocks_numba")
    chosen = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")  # by this process
    environ = {name: value for name, value in os.environ.items() if name not in chosen}
    found = {
        subprocess.run(
            [sys.executable, "-c", program, name],
            env=environ, capture_output=True, check=True, timeout=300,
        ).stdout
        for name in names
    }  # fmt: skip
    assert len(found) == 1, found


def test_kernels_are_copied_where_they_can_be_written_and_from_no_other_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """numba reads only where it could write, which in an image is not where they were made."""
    made, folder = tmp_path / "made", tmp_path / "own"
    (made / "kernels").mkdir(parents=True)
    (made / "kernels" / "a.nbi").write_bytes(b"index")
    assert kept.copied(made, folder) == folder
    assert (folder / "kernels" / "a.nbi").read_bytes() == b"index"
    assert folder.stat().st_mode & 0o077 == 0
    assert kept.copied(tmp_path / "none", folder) == folder
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    found = kept.copied(tmp_path / "none", folder)
    assert found != folder
    assert not list(found.iterdir())


def test_each_version_of_the_kernels_has_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel holds what it calls of other files, of whose changes numba knows nothing."""
    source = tmp_path / "a_numba.py"
    source.write_text("one")
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(kept, "sources", lambda: [("a", source)])
    first = kept.folder()
    assert kept.folder() == first
    source.write_text("two")
    assert kept.folder() != first


def test_what_an_image_brings_along_counts_as_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The layers of an image keep times of files in whole seconds."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    source = tmp_path / "a_numba.py"
    source.touch()
    os.utime(source, (1.0, 1_000_000_000.75))
    mark = kept.complete([("a", source)])
    ahead._without_fractions([source])
    assert source.stat().st_mtime == 1_000_000_000.0
    assert kept.complete([("a", source)]) == mark
    source.write_text("other")
    assert kept.complete([("a", source)]) != mark
