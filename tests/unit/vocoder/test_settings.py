"""The vocoder's settings by their present names and by those of the release before."""

import pytest

from vocoder.settings import VocoderSettings


@pytest.mark.parametrize("name", ["ANTIPHON_PIECE_FRAMES", "antiphon_piece_frames"])
def test_a_renamed_variable_is_read_by_its_old_name_and_said(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert VocoderSettings.load({name: "9"}).step_frames == 9
    assert "ANTIPHON_STEP_FRAMES" in capsys.readouterr().out
    assert VocoderSettings.load({name: "9", "ANTIPHON_STEP_FRAMES": "7"}).step_frames == 7


def test_a_step_holds_more_of_short_frames_unless_it_was_set() -> None:
    usual, short = (VocoderSettings.load({}).limits(rate) for rate in (12.5, 86.13))
    assert (usual.stream_frames, usual.frames) == (16, 32)
    assert (short.stream_frames, short.frames) == (34, 68)
    told = VocoderSettings.load({"ANTIPHON_STEP_FRAMES": "9", "ANTIPHON_BATCH_FRAMES": "20"})
    assert (told.limits(86.13).stream_frames, told.limits(86.13).frames) == (9, 20)


def test_a_device_holds_more_streams_and_no_more_frames_a_step() -> None:
    usual = VocoderSettings.load({"ANTIPHON_DEVICE": "cuda"})
    assert (usual.slots, usual.batch_streams) == (256, 32)
    assert usual.limits(12.5).frames == usual.device_limits.frames == 32
    assert VocoderSettings.load({}).slots == 64
    assert VocoderSettings.load({"ANTIPHON_DEVICE": "cuda", "ANTIPHON_SLOTS": "8"}).slots == 8
    told = VocoderSettings.load({"ANTIPHON_DEVICE": "cuda", "ANTIPHON_BATCH_FRAMES": "20"})
    assert told.limits(12.5).frames == told.device_limits.frames == 20
