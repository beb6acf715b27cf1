"""Subjects: one token a name, and live copies that no stream captures."""

import pytest

from ttscommon.wire import subjects
from ttscommon.wire.errors import BadRequest


@pytest.mark.parametrize("name", ["", "a.b", "a b", "*", ">", "ä", "a\n"])
def test_a_name_that_would_change_a_subjects_meaning_is_refused(name: str) -> None:
    with pytest.raises(BadRequest):
        subjects.token(name)
    with pytest.raises(BadRequest):
        subjects.CODES.subject(name)


def test_the_live_copy_of_a_log_is_never_captured_by_its_stream() -> None:
    for log in subjects.LOGS:
        assert log.live("r") == f"live.{log.subject('r')}"
        assert not log.live("r").startswith(f"{log.prefix}.")
