"""A folder of wheels speaks where there is no clone. `make test-deploy` runs it.

The environments see this one's packages from elsewhere, so that a test takes a minute and not ten;
`test_install.py` installs those as well.
"""

import os
import wave
from pathlib import Path
from typing import Final

import pytest

from tests.deploy.engine import deployed
from tests.deploy.installed import Environment, build, earlier, empty
from tools import release

pytestmark = deployed

TEXT: Final = "The tide is coming in."
COMPILES: Final = "compiling kernels for this machine, once"


def ours(wheels: Path) -> list[str]:
    """What `pip install antiphon` brings of ours, among the wheels of all packages."""
    tools = ("antiphon_bench", "antiphon_voicetrain")
    found = (path.name.partition("-")[0] for path in wheels.glob("*.whl"))
    return sorted(name.replace("_", "-") for name in found if name not in tools)


@pytest.fixture(scope="module")
def environment(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """What has nothing but wheels; the tests of this module find it in this order."""
    made = empty(tmp_path_factory.mktemp("fresh"))
    made.install(wheels, ours(wheels))
    return made


def loudest(path: Path) -> int:
    with wave.open(str(path)) as sound:
        samples = memoryview(sound.readframes(sound.getnframes())).cast("h")
    return max(abs(sample) for sample in samples)


def test_the_command_reads_a_book_and_speaks_from_wheels_alone(environment: Environment) -> None:
    book = environment.home / "book.txt"
    book.write_text(f"{TEXT}\n\n{TEXT}\n")
    said = environment.run("antiphon", "read", book, "-o", "book.opus")
    assert COMPILES in " ".join(said.split())
    assert (environment.home / "book.opus").stat().st_size > 2_000
    with environment.up() as (url, shown):
        assert COMPILES not in shown
        environment.run("antiphon", "say", "--url", url, TEXT, "-o", "tide.wav")
    assert loudest(environment.home / "tide.wav") > 1_000
    for made in (book, environment.home / "book.opus", environment.home / "tide.wav"):
        made.unlink()
    assert list(environment.home.iterdir()) == []


def test_kernels_that_an_image_brings_along_are_not_compiled_again(
    environment: Environment,
) -> None:
    """Its layers keep whole seconds of files' times."""
    environment.run(environment.python, "-m", "ttscommon.engine.kernels.ahead")
    for path in environment.site.rglob("*_numba.py"):
        os.utime(path, (0, int(path.stat().st_mtime)))
    kept = environment.folder / "share/antiphon/kernels"
    before = {path: path.stat().st_mtime_ns for path in kept.rglob("*") if path.is_file()}
    with environment.up() as (_, shown):
        assert COMPILES not in shown
    after = {path: path.stat().st_mtime_ns for path in kept.rglob("*") if path.is_file()}
    assert len(before) > 10
    assert after == before


def test_the_version_before_becomes_this_one_and_then_nothing_is_left(
    wheels: Path, tmp_path: Path
) -> None:
    made = empty(tmp_path)
    before = set(made.site.iterdir()) | set((made.folder / "bin").iterdir())
    old = build(tmp_path / "old", earlier(tmp_path / "earlier"))
    made.install(old, ours(old))
    made.install(wheels, ours(wheels))
    [version] = set(release.versions().values())
    assert made.run("antiphon", "--version").strip() == f"antiphon {version}"
    made.run("antiphon", "models", "--known")
    made.uninstall(ours(wheels))
    left = set(made.site.iterdir()) | set((made.folder / "bin").iterdir())
    assert left == before
    assert list(made.home.iterdir()) == []
