"""A row's bits do not depend on how many rows share its product, nor on the processor."""

import os
import subprocess
import sys
import textwrap

import pytest
import torch

from ttscommon.engine.nn import ROW_TILE, keep_one_order, pad_rows, padded_rows

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


# Rows of one product, alone and behind others, against the whole; and what was set.
_PRODUCTS = textwrap.dedent("""
    import torch
    from ttscommon.engine.nn import keep_one_order
    torch.set_num_threads({threads})
    for inner, outer in ((256, 768), (680, 256), (192, 272), (2048, 1024)):
        generator = torch.Generator().manual_seed(inner)
        x, w = (torch.randn(n, inner, generator=generator) for n in (203, outer))
        whole = torch.nn.functional.linear(x, w)
        for rows in (4, 8, 12, 16, 20, 52, 56, 128):
            for first in (0, 3):
                part = torch.nn.functional.linear(x[first : first + rows], w)
                assert torch.equal(part, whole[first : first + rows]), (inner, outer, rows)
    print("set" if keep_one_order() else "left alone")
""")


def _run(threads: int, **told: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _PRODUCTS.format(threads=threads)],
        env=os.environ | told,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("instructions", [pytest.param("AVX2", marks=pytest.mark.slow), "AVX512"])
def test_rows_have_one_order_of_sums_whatever_the_instructions(
    instructions: str, threads: int
) -> None:
    _run(threads, MKL_ENABLE_INSTRUCTIONS=instructions)


@pytest.mark.slow
def test_a_mode_that_the_operator_chose_is_left_alone() -> None:
    assert _run(1, MKL_CBWR="AUTO,STRICT") == "left alone"


def test_processors_of_other_vendors_are_left_alone() -> None:
    assert not keep_one_order("AuthenticAMD")


def test_setting_it_again_changes_nothing() -> None:
    assert keep_one_order() == keep_one_order()
