"""The codec's samples are the published package's, in one shot and in any pieces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from antiphon_bench.synthetic.snac import write_codec
from tests.parity.conftest import goldens
from tests.parity.snac_material import FRAMES, SEED, codes, noise
from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.wire.messages import SpeechRequest
from vocoder.codecs.base import Samples, Work
from vocoder.codecs.snac.codec import Snac, Stream
from vocoder.codecs.snac.noise import keyed

REQUEST = SpeechRequest("r", "m", "tara", "text", seed=1)


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> Snac:
    folder = tmp_path_factory.mktemp("snac")
    write_codec(folder, seed=SEED)
    return Snac.load("m", folder)


def opened(codec: Snac) -> Stream:
    """With the goldens' noise at absolute steps."""

    def golden(block: int, first: int, steps: int, device: torch.device) -> Tensor:
        return torch.from_numpy(noise(SEED, block, first + steps)[first:]).to(device)

    stream = codec.open(REQUEST)
    stream.noise = golden
    return stream


def decoded(codec: Snac, sizes: tuple[int, ...]) -> Samples:
    stream, found, at = opened(codec), [], 0
    for size in sizes:
        work = Work(stream, {"codes": codes()[at : at + size]}, final=False)
        found += codec.decode([work])
        at += size
    found += codec.decode([Work(stream, {"codes": codes()[at:]}, final=True)])
    return np.concatenate(found)


@pytest.mark.parametrize(
    "sizes", [(), (1,) * FRAMES, (3, 1, 4), (2, 2, 2, 2, 2), (FRAMES,), (1, 8)], ids=str
)
def test_any_pieces_give_the_packages_samples(codec: Snac, sizes: tuple[int, ...]) -> None:
    wanted = goldens("snac")["samples"]
    assert wanted.std() > 0.05
    found = decoded(codec, sizes)
    assert found.shape == wanted.shape == (FRAMES * 2048,)
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_all_but_the_lookahead_is_final_at_once(codec: Snac) -> None:
    stream, counts = opened(codec), []
    for at in range(5):
        work = Work(stream, {"codes": codes()[at : at + 1]}, final=False)
        counts.append(len(codec.decode([work])[0]))
    assert counts == [0, 0, 3 * 2048 - 4757, 2048, 2048]


def test_noise_is_a_function_of_seed_block_and_step() -> None:
    device = torch.device("cpu")
    whole = keyed(7)(2, 0, 4000, device)
    assert torch.equal(keyed(7)(2, 1500, 100, device), whole[1500:1600])
    assert abs(float(whole.mean())) < 0.06
    assert abs(float(whole.std()) - 1) < 0.06
    for other in (keyed(8)(2, 0, 4000, device), keyed(7)(1, 0, 4000, device)):
        assert abs(float((whole * other).mean())) < 0.06


def test_a_codec_without_a_tensor_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    write_codec(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["decoder.model.1.parametrizations.weight.original1"]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"lacks decoder\.model\.1\.weight"):
        Snac.load("m", tmp_path)


def test_weight_norm_of_older_files_is_the_same_codec(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    write_codec(tmp_path, seed=SEED)
    file = tmp_path / "model.safetensors"
    older = {
        name.replace("parametrizations.weight.original0", "weight_g").replace(
            "parametrizations.weight.original1", "weight_v"
        ): tensor
        for name, tensor in load_file(file).items()
    }
    new = decoded(Snac.load("m", tmp_path), ())
    save_file(older, file)
    np.testing.assert_array_equal(decoded(Snac.load("m", tmp_path), ()), new)
