"""A row's bits do not depend on how many rows share its product."""

import pytest
import torch

from ttscommon.engine.nn import ROW_TILE, pad_rows, padded_rows

# (inputs, outputs) of the published talkers' and predictor's products, and beyond.
PRODUCTS = [
    (1024, 1024), (1024, 4096), (1024, 6144), (2048, 1024), (2048, 3072), (3072, 1024),
    *(pytest.param(*each, marks=pytest.mark.slow)
      for each in ((2048, 4096), (2048, 12288), (6144, 2048), (6144, 6144))),
]  # fmt: skip


@pytest.mark.parametrize(("inputs", "outputs"), PRODUCTS)
def test_padded_rows_have_the_bits_of_a_large_product(inputs: int, outputs: int) -> None:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(inputs + outputs)
    x = torch.randn(67, inputs, generator=generator)
    weight = torch.randn(outputs, inputs, generator=generator) / inputs**0.5
    whole = torch.nn.functional.linear(pad_rows(x), weight)
    for rows in (1, 2, 3, 5, 8, 13, 34):
        for first in (0, 1, 30):
            alone = torch.nn.functional.linear(pad_rows(x[first : first + rows]), weight)
            assert torch.equal(alone[:rows], whole[first : first + rows])


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 16])
def test_padding_adds_zeros_behind_the_rows(rows: int) -> None:
    x = torch.ones(rows, 2, 3)
    padded = pad_rows(x)
    assert len(padded) == padded_rows(rows)
    assert len(padded) % ROW_TILE == 0
    assert torch.equal(padded[:rows], x)
    assert not padded[rows:].any()


def test_masks_are_padded_with_false() -> None:
    padded = pad_rows(torch.ones(5, 3, dtype=torch.bool))
    assert padded.dtype == torch.bool
    assert padded.sum() == 15
