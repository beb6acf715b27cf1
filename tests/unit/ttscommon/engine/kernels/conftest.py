"""What tests of kernels for processors have in common."""

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from ttscommon.engine.kernels.vectors_numba import narrow, wide


@pytest.fixture(params=["narrow", "wide"])
def vectors(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both kinds of vectors have to do all of it."""
    if request.param == "wide" and not wide():
        pytest.skip("this processor has no wide vectors")
    with narrow() if request.param == "narrow" else nullcontext():
        yield
