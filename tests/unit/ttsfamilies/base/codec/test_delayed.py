"""Rows in front of a codec of frames: what it is shown of them."""

import numpy as np
import pytest

from tests.unit.vocoder.test_conformance import fake, request
from ttscommon.engine.delay_pattern import DelayPattern
from ttscommon.wire.fields import Array
from ttsfamilies.base.codec.base import Codec, Work
from ttsfamilies.base.codec.wrapper import Delayed

DELAY_PATTERN = DelayPattern((0, 1, 1, 3))
FRAMES = np.random.default_rng(1).integers(0, 512, (9, 4)).astype(np.int16)


def spoken(codec: Codec, codes: Array) -> list[float]:
    (samples,) = codec.decode([Work(codec.open(request("a")), {"codes": codes}, final=True)])
    return list(samples)


def test_rows_sound_like_their_frames_in_which_an_id_that_is_no_code_counts_as_the_first() -> None:
    frames = FRAMES.copy()
    frames[4, 2] = 513
    rows = DELAY_PATTERN.rows(frames, 512, 513)
    frames[4, 2] = 0
    assert spoken(Delayed(fake(), DELAY_PATTERN, 514), rows) == spoken(fake(), frames)
    assert spoken(Delayed(fake(), DELAY_PATTERN, 514), rows[:3]) == [], "no frame is complete"


def test_every_codebook_has_a_delay() -> None:
    with pytest.raises(ValueError, match="every codebook"):
        Delayed(fake(), DelayPattern((0, 1)), 514)
