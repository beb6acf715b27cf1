"""Many processes' lines become one readable log."""

from __future__ import annotations

import io
import json

from rich.console import Console

from antiphon.stack.logview import LogView


def shown(*lines: tuple[str, str], level: str = "info", raw: bool = False) -> str:
    output = io.StringIO()
    view = LogView(Console(file=output, width=200), level, raw=raw)
    for source, line in lines:
        view.line(source, line)
    return output.getvalue()


def test_an_event_shows_its_source_its_name_and_its_fields() -> None:
    line = json.dumps(
        {"event": "job.done", "level": "info", "service": "talker", "frames": 12, "took_s": 0.12345}
    )
    text = shown(("talker-2", line))
    assert text.split(None, 1)[1].split() == ["talker-2", "job.done", "frames=12", "took_s=0.1235"]


def test_a_traceback_stands_below_its_event() -> None:
    line = json.dumps({"event": "failed", "level": "error", "exception": "Traceback\n  here"})
    assert shown(("gateway", line)).splitlines()[1:] == ["Traceback", "  here"]


def test_events_below_the_level_are_left_out() -> None:
    info, warning = ({"event": level, "level": level} for level in ("info", "warning"))
    lines = [("gateway", json.dumps(info)), ("gateway", json.dumps(warning))]
    assert len(shown(*lines, level="warning").splitlines()) == 1


def test_the_brokers_chatter_is_for_debugging_and_its_errors_are_for_everybody() -> None:
    chatter = ("broker", "[9] 2026/01/02 03:04:05.678901 [INF] Server is ready")
    trouble = ("broker-1", "[9] 2026/01/02 03:04:05.678901 [ERR] no space left")
    assert "no space left" in shown(chatter, trouble)
    assert "ready" not in shown(chatter, trouble)
    assert "Server is ready" in shown(chatter, level="debug")


def test_what_is_no_event_is_shown_as_it_is() -> None:
    assert "Segmentation fault" in shown(("talker-1", "Segmentation fault"))
    assert "{broken" in shown(("talker-1", "{broken"))
    assert "[bold]" in shown(("talker-1", "[bold]markup is text"))


def test_raw_passes_lines_through() -> None:
    assert shown(("gateway", '{"event": "x"}'), raw=True) == '{"event": "x"}\n'
