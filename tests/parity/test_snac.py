"""What is SNAC's own: its lookahead, its noise, and the forms of its files."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.parity.orpheus_cases import CODEC_SEED, codes
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Samples, Work
from ttsfamilies.base.codec.windowed import keyed
from ttsfamilies.orpheus.codec import Snac, load
from ttsfamilies.orpheus.synthetic_snac import write_codec

REQUEST = SpeechRequest("r", "m", "tara", "text", seed=1)


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> Snac:
    folder = tmp_path_factory.mktemp("snac")
    write_codec(folder, seed=CODEC_SEED)
    return load("m", folder)


def decoded(codec: Snac) -> Samples:
    (found,) = codec.decode([Work(codec.open(REQUEST), {"codes": codes()}, final=True)])
    return found


def test_all_but_the_lookahead_is_final_at_once(codec: Snac) -> None:
    stream, counts = codec.open(REQUEST), []
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


def test_weight_norm_of_older_files_is_the_same_codec(tmp_path: Path) -> None:
    write_codec(tmp_path, seed=CODEC_SEED)
    file = tmp_path / "model.safetensors"
    older = {
        name.replace("parametrizations.weight.original0", "weight_g").replace(
            "parametrizations.weight.original1", "weight_v"
        ): tensor
        for name, tensor in load_file(file).items()
    }
    new = decoded(load("m", tmp_path))
    save_file(older, file)
    np.testing.assert_array_equal(decoded(load("m", tmp_path)), new)
