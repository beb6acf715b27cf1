"""The teacher's readings: the same each time, resumed where they stopped, whole frames."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ttsfamilies.base.talker.options import LEXICON
from ttsfamilies.vesper.codec.net import HOPS_PER_FRAME
from ttsfamilies.vesper.net import VesperNet
from voicetrain.vesper import corpus
from voicetrain.vesper.corpus import VesperCorpus, read_corpus
from voicetrain.vesper.ported import port_text_encoders

pytest.importorskip("hibari", reason="the teacher belongs to the training environment")

TEXTS = ["The train is late.", "***", "Is it, really?", "Two cats and a dog.", "Yes."]


def _read(folder: Path) -> VesperCorpus:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "SHARD", 2)
        read_corpus(TEXTS, LEXICON, folder, seed=3, hidden_count=3)
    return VesperCorpus.load(folder, hidden=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpus")


@pytest.fixture(scope="module")
def found(folder: Path) -> VesperCorpus:
    """What was read into the folder, which no test changes."""
    return _read(folder)


def test_readings_are_whole_frames_laid_end_to_end(found: VesperCorpus) -> None:
    assert len(found) == 4  # "***" says nothing
    assert (np.diff(found.hop_start) % HOPS_PER_FRAME == 0).all()
    units = np.add.reduceat(found.units.astype(int), found.token_start[:-1])
    assert (2 * units == np.diff(found.hop_start)).all()
    assert found.hidden_count == 2
    assert len(found.hidden) == found.hop_start[2]


def test_readings_are_the_same_each_time_and_what_is_there_is_kept(
    folder: Path, found: VesperCorpus, tmp_path: Path
) -> None:
    first = tmp_path / "0000.npz"
    first.write_bytes((folder / first.name).read_bytes())
    kept = first.stat().st_mtime_ns
    again = _read(tmp_path)
    assert first.stat().st_mtime_ns == kept
    for name in ("ids", "units", "f0", "energy", "pace", "level", "span", "hidden"):
        assert np.array_equal(getattr(found, name), getattr(again, name)), name


def test_features_are_of_the_utterances_asked_for(found: VesperCorpus) -> None:
    net = VesperNet()
    port_text_encoders(net)
    (features,) = found.features(net.eval(), [1])
    frames = found.frame_start[2] - found.frame_start[1]
    assert [len(part) for part in features] == [frames] * 3
    assert torch.isfinite(features.text).all()
