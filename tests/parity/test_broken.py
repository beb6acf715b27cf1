"""A broken checkpoint or recording is named, whatever its family, and harms nothing else."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.parity.broken import BREAKAGES, CLONING, MAKERS, RECORDINGS
from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.sound.recordings import BadRecording
from ttsfamilies.base.talker.base import Family
from ttsfamilies.talkers import load

# A checkpoint with its codec, and a codec by itself; `make test-all` takes every family.
QUICK = ("CSM", "SNAC")
every_family = pytest.mark.parametrize(
    "family",
    [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in MAKERS],
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A good checkpoint of a family."""

    @cache
    def written(family: str) -> Path:
        folder = tmp_path_factory.mktemp("whole") / "checkpoint"
        MAKERS[family].write(folder)
        return folder

    return written


def copied(source: Path, target: Path) -> Path:
    """Links, each of which a breakage replaces."""
    for path in source.rglob("*"):
        place = target / path.relative_to(source)
        if path.is_file():
            place.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, place)
    return target


@every_family
@pytest.mark.parametrize("breakage", BREAKAGES)
def test_a_broken_checkpoint_is_named(
    family: str, breakage: str, whole: Callable[[str], Path], tmp_path: Path
) -> None:
    folder, (do, said) = copied(whole(family), tmp_path / "broken"), BREAKAGES[breakage]
    do(folder, MAKERS[family])
    with pytest.raises(CheckpointError, match=said) as refused:
        MAKERS[family].load("m", folder)
    assert str(folder) in str(refused.value)


@every_family
def test_a_whole_one_loads_after_all_of_them(family: str, whole: Callable[[str], Path]) -> None:
    assert MAKERS[family].load("m", whole(family))


@cache
def cloning(folder: Path) -> Family:
    return load("m", folder)


@pytest.mark.parametrize("family", CLONING)
@pytest.mark.parametrize("recording", RECORDINGS)
def test_a_broken_recording_is_named_by_a_family_that_clones(
    recording: str, family: str, whole: Callable[[str], Path]
) -> None:
    make, said = RECORDINGS[recording]
    model = cloning(whole(family))
    if not said:
        assert model.derive(make())
        return
    with pytest.raises(BadRecording, match=said):
        model.derive(make())
