"""The vocoder's settings by their present names and by those of the release before."""

from __future__ import annotations

import pytest

from vocoder.settings import VocoderSettings


@pytest.mark.parametrize("name", ["ANTIPHON_PIECE_FRAMES", "antiphon_piece_frames"])
def test_a_renamed_variable_is_read_by_its_old_name_and_said(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert VocoderSettings.load({name: "9"}).step_frames == 9
    assert "ANTIPHON_STEP_FRAMES" in capsys.readouterr().out


def test_the_present_name_counts_where_both_are_set() -> None:
    both = {"ANTIPHON_PIECE_FRAMES": "9", "ANTIPHON_STEP_FRAMES": "7"}
    assert VocoderSettings.load(both).step_frames == 7
