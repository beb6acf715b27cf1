"""Cases that are drawn anew by every run; one that failed is drawn again by its seed."""

import os
from collections.abc import Iterator
from random import Random, SystemRandom
from typing import Final

import pytest
import torch
from hypothesis import settings

_GIVEN: Final = "ANTIPHON_TEST_SEED"
# `make test-all` sets it, and looks at everything; each `make test` at another sample.
_WHOLE: Final = "ANTIPHON_FUZZ" in os.environ


def examples(count: int) -> settings:
    """So many of hypothesis, and a tenth of them in `make test`."""
    return settings(max_examples=count if _WHOLE else max(5, count // 10))


def cases(count: int) -> Iterator[tuple[Random, torch.Generator]]:
    """So many sources of shapes and of numbers. The last seed that pytest shows is the one that
    failed; ANTIPHON_TEST_SEED draws it alone.
    """
    given = os.environ.get(_GIVEN)
    for _ in range(1 if given else count):
        seed = int(given) if given else SystemRandom().randrange(1 << 31)
        print(f"{_GIVEN}={seed}")
        yield Random(seed), torch.Generator().manual_seed(seed)


def drawn(count: int) -> pytest.MarkDecorator:
    """A test of `count` cases, and of a hundred times as many by `make test-all`."""
    many = pytest.param(100 * count, marks=pytest.mark.slow)
    return pytest.mark.parametrize("count", [count, many])
