"""One readable log out of many processes' JSON lines."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from rich.console import Console
from rich.text import Text

_COLOURS: Final = {"broker": "magenta", "gateway": "cyan", "talker": "green", "vocoder": "yellow"}
_OWN_COLOUR: Final = "white"
_LEVEL_STYLES: Final = {
    "debug": "dim",
    "info": "",
    "warning": "yellow",
    "error": "bold red",
    "critical": "bold red",
}
_NATS_LINE: Final = re.compile(r"\[\d+\] \S+ \S+ \[(\w+)\] (.*)")
_NATS_LEVELS: Final = {"DBG": "debug", "TRC": "debug", "INF": "info", "WRN": "warning"}
_SHOWN_ELSEWHERE: Final = ("event", "level", "timestamp", "service", "exception", "logger")
_LEVELS: Final = ("debug", "info", "warning", "error", "critical")


class LogView:
    """Prints events with time, source and fields; `raw` passes the children's lines through."""

    def __init__(self, console: Console, level: str = "info", *, raw: bool = False) -> None:
        self._console = console
        self._threshold = _LEVELS.index(level)
        self._raw = raw

    def line(self, source: str, line: str) -> None:
        """Show what child `source` wrote."""
        if not line:
            return
        if self._raw:
            self._console.out(line, highlight=False)
            return
        self.event(source, _parse(line))

    def event(self, source: str, event: Mapping[str, Any]) -> None:
        """Show one event."""
        level = str(event.get("level", "info"))
        # The broker tells much at its start that only a broker's operator wants to know; that its
        # generated password is not hashed in a file that only its owner can read is one of them.
        chatter = level == "info" or "Plaintext passwords" in str(event.get("event"))
        effective = "debug" if source.startswith("broker") and chatter else level
        if level in _LEVELS and _LEVELS.index(effective) < self._threshold:
            return
        self._console.print(render(source, event), soft_wrap=True)


def render(source: str, event: Mapping[str, Any]) -> Text:
    """`time  source  event  key=value ...`, and a traceback below it, if there is one."""
    style = _LEVEL_STYLES.get(str(event.get("level", "info")), "")
    colour = _COLOURS.get(source.split("-")[0], _OWN_COLOUR)
    text = Text(no_wrap=False)
    text.append(f"{_clock(event)} ", style="dim")
    text.append(f"{source:<10} ", style=colour)
    text.append(f"{event.get('event', ''):<22}", style=style)
    for name, value in event.items():
        if name not in _SHOWN_ELSEWHERE:
            text.append(f" {name}=", style="dim")
            text.append(_plain(value))
    if "exception" in event:
        text.append("\n" + str(event["exception"]), style="red")
    return text


def _parse(line: str) -> Mapping[str, Any]:
    if line.startswith("{"):
        try:
            parsed = json.loads(line)
        except ValueError:
            return {"event": line}
        return parsed if isinstance(parsed, dict) else {"event": line}
    if match := _NATS_LINE.match(line):
        mark, message = match.groups()
        return {"event": message, "level": _NATS_LEVELS.get(mark, "error")}
    return {"event": line}


def _clock(event: Mapping[str, Any]) -> str:
    stamp = event.get("timestamp")
    try:
        moment = datetime.fromisoformat(str(stamp)).astimezone()
    except ValueError:
        moment = datetime.now().astimezone()
    return moment.strftime("%H:%M:%S.%f")[:-3]


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    text = value if isinstance(value, str) else json.dumps(value)
    return repr(text) if " " in text else text
