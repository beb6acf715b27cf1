"""The teacher's readings: the same each time, resumed where they stopped, whole frames."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ttsfamilies.vesper.codec.net import HOPS_PER_FRAME
from ttsfamilies.vesper.net import VesperNet
from voicetrain.vesper import corpus
from voicetrain.vesper.corpus import VesperCorpus, read_corpus
from voicetrain.vesper.ported import port_text_encoders

pytest.importorskip("hibari", reason="the teacher belongs to the training environment")

TEXTS = ["The train is late.", "***", "Is it, really?", "Two cats and a dog.", "Yes."]


def _read(folder: Path, lexicon: Path, monkeypatch: pytest.MonkeyPatch) -> VesperCorpus:
    monkeypatch.setattr(corpus, "SHARD", 2)
    read_corpus(TEXTS, lexicon, folder, seed=3, hidden_count=3)
    return VesperCorpus.load(folder, hidden=True)


def test_readings_are_whole_frames_laid_end_to_end(
    tmp_path: Path, lexicon: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _read(tmp_path / "a", lexicon, monkeypatch)
    assert len(found) == 4  # "***" says nothing
    assert (np.diff(found.hop_start) % HOPS_PER_FRAME == 0).all()
    units = np.add.reduceat(found.units.astype(int), found.token_start[:-1])
    assert (2 * units == np.diff(found.hop_start)).all()
    assert found.hidden_count == 2
    assert len(found.hidden) == found.hop_start[2]


def test_readings_are_the_same_each_time(
    tmp_path: Path, lexicon: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = _read(tmp_path / "a", lexicon, monkeypatch)
    (tmp_path / "b").mkdir()
    other = _read(tmp_path / "b", lexicon, monkeypatch)
    for name in ("ids", "units", "f0", "energy", "pace", "level", "span", "hidden"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def test_what_is_there_is_kept(
    tmp_path: Path, lexicon: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _read(tmp_path / "a", lexicon, monkeypatch)
    kept = (tmp_path / "a" / "0000.npz").stat().st_mtime_ns
    (tmp_path / "a" / "0001.npz").unlink()
    found = _read(tmp_path / "a", lexicon, monkeypatch)
    assert (tmp_path / "a" / "0000.npz").stat().st_mtime_ns == kept
    assert len(found) == 4


def test_features_are_of_the_utterances_asked_for(
    tmp_path: Path, lexicon: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, net = _read(tmp_path / "a", lexicon, monkeypatch), VesperNet()
    port_text_encoders(net)
    (features,) = found.features(net.eval(), [1])
    frames = found.frame_start[2] - found.frame_start[1]
    assert [len(part) for part in features] == [frames] * 3
    assert torch.isfinite(features.text).all()
