"""Fish Audio S2's codec: that it counts where a frame is, its codes, what it looks back at."""

import numpy as np

from tests.unit.ttsfamilies.codecs import fish_s2, fish_s2_net
from ttscommon.wire.fields import cut
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Samples, Work

REQUEST = SpeechRequest("r", "m", "", "text")
FRAMES = 30
CODES = {"codes": np.random.default_rng(1).integers(0, 1024, (FRAMES, 10)).astype(np.int16)}


def decoded(begin: int, told: int) -> Samples:
    """Samples of the frames from `begin` on, by a state that believes to be at frame `told`."""
    codec = fish_s2()
    state = codec.open(REQUEST, told)
    (samples,) = codec.decode([Work(state, cut(CODES, begin, FRAMES), final=True)])
    return samples


def test_a_late_state_is_the_undisturbed_one_if_it_knows_where_it_is() -> None:
    codec, heard = fish_s2(), 2
    reach = codec.spec.context_frames
    assert reach is not None
    begin = FRAMES - heard - reach
    assert begin > 0
    own = heard * codec.spec.samples_per_frame
    whole = decoded(0, 0)[-own:]
    np.testing.assert_allclose(decoded(begin, begin)[-own:], whole, 0, 1e-6)
    # Tables of angles are rounded, so that distances alone do not tell what is said.
    assert np.abs(decoded(begin, 0)[-own:] - whole).max() > 2e-6


def test_the_context_is_as_long_as_it_has_to_be() -> None:
    spec = fish_s2().spec
    sizes = fish_s2_net().sizes
    assert spec.context_frames is not None
    # Windows of all layers, and the convolutions: about ten frames.
    assert 5 < spec.context_frames - sizes.layers * (sizes.window - 1) < 12
    assert spec.sample_rate == 44_100
    assert spec.samples_per_frame == 2048


def test_codes_beyond_a_codebook_are_its_last() -> None:
    codec = fish_s2()
    codes = {name: array.copy() for name, array in cut(CODES, 0, 3).items()}
    clipped = {name: array.copy() for name, array in codes.items()}
    codes["codes"][:, 1:], clipped["codes"][:, 1:] = 3000, 1023
    works = [Work(codec.open(REQUEST), frames, final=True) for frames in (codes, clipped)]
    one, other = codec.decode(works)
    np.testing.assert_array_equal(one, other)
    codes["codes"][:, 0] = 3000  # of which the semantic codebook has one
    (third,) = codec.decode([Work(codec.open(REQUEST), codes, final=True)])
    assert not np.array_equal(third, one)
