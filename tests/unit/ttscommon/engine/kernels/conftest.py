"""What tests of kernels for processors have in common."""

import pytest

from ttscommon.engine.kernels.vectors_numba import WIDE


@pytest.fixture(params=["narrow", "wide"])
def vectors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds of vectors have to do all of it."""
    if request.param == "narrow":
        monkeypatch.setattr(WIDE, "value", 0)
    elif not WIDE.value:
        pytest.skip("this processor has no wide vectors")
