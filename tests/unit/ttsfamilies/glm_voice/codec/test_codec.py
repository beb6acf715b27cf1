"""What of a long answer the flow is shown, and what a vocoder holds of it."""

import numpy as np
import pytest
import torch

from tests.unit.ttsfamilies.codecs import glm_voice
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Due, Work
from ttsfamilies.glm_voice.blocks import MOST_PROMPT, TOKEN_SAMPLES, begun, blank, stepped
from ttsfamilies.glm_voice.flow import frames_of

REQUEST = SpeechRequest("r", "m", "", "text")


def tokens(count: int) -> Arrays:
    return {"token": np.random.default_rng(1).integers(0, 256, count).astype(np.int16)}


def test_a_block_waits_for_one_id_more_or_for_the_end() -> None:
    codec = glm_voice()
    state = codec.open(REQUEST)
    assert codec.due(state, tokens(25), ended=False) is None
    assert codec.due(state, tokens(26), ended=False) == Due(25, closes=False)
    assert codec.due(state, tokens(25), ended=True) == Due(25, closes=True)
    assert codec.due(state, tokens(0), ended=True) is None


@pytest.mark.slow
@torch.inference_mode()
def test_a_prompt_is_bounded_and_frames_stay_where_they_are() -> None:
    codec = glm_voice()
    passage = blank(codec._flow)
    ids = torch.arange(725) % 256
    at, most = 0, 0
    for size in (25, 50, 100, 150, 200, 200):
        passage = begun(codec._flow, passage, ids[at : at + size], Due(size, closes=False))
        at += size
        most = max(most, len(passage.ids))
        for _ in range(codec.spec.solver_steps):
            passage = stepped(codec._flow, codec._hift, passage)
        assert passage.work is None
        forgotten = at - len(passage.ids)
        assert forgotten % 128 == 0
        assert passage.mel.shape[1] == frames_of(at) - frames_of(forgotten) - 34
        assert len(passage.sound) == (frames_of(at) - 35) * 256
    assert 325 < most <= MOST_PROMPT


def test_what_streams_hold_is_reported_until_they_are_over() -> None:
    codec = glm_voice()
    state = codec.open(REQUEST)
    segment = Work(state, codec.spec.none(), final=False, segment=tokens(25))
    for _ in range(codec.spec.solver_steps):
        codec.decode([segment])
    held = codec.state_use.held_bytes
    assert held > 138 * 80 * 4
    codec.close(state)
    assert codec.state_use.held_bytes < held


@pytest.mark.parametrize("count", [1, 24, 25, 26])
def test_an_answer_of_any_length_lasts_as_long_as_its_ids(count: int) -> None:
    codec = glm_voice()
    (samples,) = codec.decode([Work(codec.open(REQUEST), tokens(count), final=True)])
    assert len(samples) == count * TOKEN_SAMPLES
    assert np.isfinite(samples).all()
