"""The default voice ends its texts; nothing of that is taken for a runaway."""

from __future__ import annotations

from pathlib import Path

from voicetrain.corpus import held_out
from voicetrain.vesper.false_alarms import guarded_voice, listen

VOICE = Path(__file__).resolve().parents[4] / "voices/vesper"


def test_endings_at_the_slowest_and_the_hottest_are_no_runaways() -> None:
    (found,) = listen(guarded_voice(VOICE), held_out("hard")[:3], [1.2], [0.7])
    assert found.endings == 3
    assert found.seconds > 6
    assert found.caught == ()
