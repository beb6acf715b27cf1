"""Rotation: both layouts, stretched wavelengths, exactness under casts."""

import pytest
import torch

from ttscommon.engine.kernels.choice import only
from ttscommon.engine.nn import LongScaling, Rope, RopeConfig, rope_table
from ttscommon.engine.nn.rope import rotated


def test_interleaved_rotation_is_the_half_split_one_of_permuted_channels() -> None:
    x = torch.randn(5, 3, 16, generator=torch.Generator().manual_seed(0))
    tables = [table.unsqueeze(-2) for table in rope_table(5, 16)]
    halves = torch.cat((x[..., 0::2], x[..., 1::2]), -1)
    turned = rotated(halves, *tables, interleaved=False)
    pairs = torch.stack(turned.chunk(2, -1), -1).flatten(-2)
    assert torch.equal(pairs, rotated(x, *tables, interleaved=True))


@pytest.mark.parametrize("shape", [(5, 3, 16), (2, 5, 3, 16)])
def test_a_loop_for_processors_turns_to_the_same_bits(shape: tuple[int, ...]) -> None:
    x = torch.randn(*shape[:-2], 9, 16, generator=torch.Generator().manual_seed(0))[..., 3:6, :]
    rope = Rope(16, RopeConfig(interleaved=True))
    angles = rope.angles(torch.arange(x[..., 0, 0].numel()).view(x.shape[:-2]))
    with torch.no_grad(), only("torch"):
        plain = rope.rotate(x, angles)
    with torch.no_grad(), only("numba"):
        assert torch.equal(rope.rotate(x, angles), plain)


def test_a_cast_model_that_was_on_the_meta_device_has_its_frequencies_in_float32() -> None:
    with torch.device("meta"):
        rope = Rope(16, RopeConfig(theta=1e6))
    rope.to_empty(device="cpu").to(torch.bfloat16)
    assert rope.frequencies.dtype == torch.float32
    assert torch.equal(rope.frequencies, Rope(16, RopeConfig(theta=1e6)).frequencies)


def test_pairs_stretched_by_their_own_factors_turn_so_much_less() -> None:
    plain = Rope(8, RopeConfig())
    long = Rope(8, RopeConfig(scaling=LongScaling((1.0, 2.0, 4.0, 8.0), 1.5)))
    long.to(torch.bfloat16)
    at = torch.tensor([0, 8, 16])
    cosines, sines = long.angles(at)
    assert cosines.dtype == torch.float32
    for pair, factor in enumerate((1, 2, 4, 8)):
        wanted = plain.angles(at // factor)
        assert torch.allclose(cosines[:, pair], 1.5 * wanted[0][:, pair], atol=1e-6)
        assert torch.allclose(sines[:, pair], 1.5 * wanted[1][:, pair], atol=1e-6)
