"""Kokoro lasts as long as the published package says and sounds as it does.

Angles of the source's spectrum turn by a whole turn for differences that are rounding, so samples
are compared in float64, of which the goldens are; in float32 each part is compared by itself.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.parity.families.kokoro import goldens
from tests.parity.kokoro_cases import CASES, SEED, Case, noise
from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.conversion import convert
from ttsfamilies.kokoro import generator as sound
from ttsfamilies.kokoro import net as prosody
from ttsfamilies.kokoro.sizes import Voices, load_config, style_row
from ttsfamilies.kokoro.synthetic import VOCABULARY, write_checkpoint

pytestmark = pytest.mark.slow  # one more family

WANTED = goldens()
heard = pytest.mark.parametrize("case", [c for c in CASES if c.heard], ids=lambda case: case.name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kokoro")
    write_checkpoint(path, seed=SEED)
    return path


def wanted(case: Case, name: str) -> Any:
    return WANTED[f"{case.name}/{name}"]


def told(folder: Path, case: Case) -> tuple[Tensor, Tensor]:
    """Symbols and the style's row."""
    ids = [0, *(VOCABULARY[s] for s in case.phones if s in VOCABULARY), 0]
    pack = Voices.load(folder, load_config(folder)).pack(case.blend)
    return torch.tensor(ids), torch.from_numpy(pack[style_row(len(case.phones), len(pack))])


@torch.inference_mode()
def spoken(folder: Path, case: Case, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    net = prosody.load_net(folder).to(dtype)
    ids, style = told(folder, case)
    pace = torch.full(ids.shape, case.speed, dtype=dtype)
    found: tuple[Tensor, Tensor] = net(net.bert(ids), pace, style[128:].to(dtype))
    return found


@torch.inference_mode()
def sounded(folder: Path, case: Case, dtype: torch.dtype) -> Tensor:
    net = sound.load_net(folder).to(dtype)
    durations, curves = spoken(folder, case, dtype)
    ids, style = told(folder, case)
    samples = int(durations.sum()) * net.config.frame_samples
    drawn = torch.from_numpy(noise(samples).T.copy()).to(dtype)
    return sound.finished(
        net.pieces(ids, durations, curves, style[:128].to(dtype), drawn.__getitem__)
    )


def test_symbols_beside_the_vocabulary_are_left_out_as_in_the_package(folder: Path) -> None:
    """Cases that English gives are test_families'."""
    case = CASES[-1]
    durations, curves = spoken(folder, case, torch.float32)
    assert len(set(durations.tolist())) > 1
    np.testing.assert_array_equal(durations, wanted(case, "durations"))
    np.testing.assert_allclose(curves[0], wanted(case, "pitch"), rtol=1e-5)
    np.testing.assert_allclose(curves[1], wanted(case, "energy"), atol=2e-5)


@heard
def test_samples_are_the_packages(folder: Path, case: Case) -> None:
    samples = wanted(case, "samples")
    assert samples.std() > 0.02
    found = sounded(folder, case, torch.float64)
    assert found.shape == samples.shape
    np.testing.assert_allclose(found, samples, atol=1e-5)


def test_the_source_is_the_packages_as_far_as_its_phases_are_exact(folder: Path) -> None:
    net, case = sound.load_net(folder), CASES[0]
    pitch = torch.from_numpy(wanted(case, "pitch"))
    with torch.inference_mode():
        drawn = torch.from_numpy(noise(len(pitch) * 300).T.copy()).float()
        source = net.decoder.generator.m_source(pitch, drawn)
    # The package sums phases in float32.
    np.testing.assert_allclose(source, wanted(case, "source"), atol=2e-3)


def test_float32_is_float64_once_the_spectrum_is_given(folder: Path) -> None:
    found, spectrum, case = [], torch.zeros(0), CASES[0]
    durations, curves = spoken(folder, case, torch.float32)
    ids, style = told(folder, case)
    for dtype in (torch.float64, torch.float32):
        net = sound.load_net(folder).to(dtype)
        generator = net.decoder.generator
        with torch.inference_mode():
            if not len(spectrum):
                drawn = torch.from_numpy(noise(int(durations.sum()) * 600).T.copy())
                spectrum = generator.spectrum(generator.m_source(curves[0].to(dtype), drawn))
            asr = net.text_encoder(ids).repeat_interleave(durations, 2)
            given = (asr, curves.to(dtype), style[:128].to(dtype), spectrum.to(dtype))
            found.append(sound.finished(net.decoder.pieces(*given)))
    exact, rounded = found
    assert float((exact - rounded).square().mean().sqrt() / exact.std()) < 1e-5


def test_a_checkpoint_as_it_is_published_is_converted_whole(folder: Path, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "published", seed=SEED, pickles=True)
    with pytest.raises(CheckpointError, match="antiphon convert"):
        prosody.load_net(tmp_path / "published")
    made = convert(tmp_path / "published", into=tmp_path / "converted")
    assert [path.name for path in made] == ["model.safetensors", "voices.safetensors"]
    for name in ("model.safetensors", "voices.safetensors"):
        assert (tmp_path / "converted" / name).read_bytes() == (folder / name).read_bytes()
