"""`antiphon up`: the local stack in the foreground, with one readable log of its processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import time
from collections.abc import Mapping, MutableMapping, Sequence
from datetime import datetime
from typing import Any, Final

import structlog
from rich.console import Console
from rich.markup import escape
from rich.text import Text
from structlog.typing import WrappedLogger

from antiphon.stack import LocalStack, StackConfig, StackFailed
from antiphon.stack.broker import BrokerMissing
from antiphon.stack.child import Child
from antiphon.stack.local import address
from antiphon.starting import compile_missing
from ttscommon.process.settings import PREFIX

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
# A broker tells much at its start and end that only a broker's operator wants to know: that its
# generated password is not hashed, in a file that only its owner can read, that others start later,
# and that it had begun to write what it does not need any more.
_CHATTER: Final = (
    "Plaintext passwords",
    "Error trying to connect to route (attempt 1)",
    "store is closed",
)
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
        chatter = level == "info" or any(told in str(event.get("event")) for told in _CHATTER)
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


_EXIT_OK = 0
_EXIT_FAILED = 1
_LOOK_S = 0.2
_KEYS: Final = f"{PREFIX}KEYS_FILE"
_EVERYWHERE: Final = ("0.0.0.0", "::")
# An address for documentation (RFC 5737).
_ELSEWHERE: Final = "192.0.2.1"


def run(config: StackConfig, console: Console, *, raw: bool) -> int:
    """Run until Ctrl-C or SIGTERM; returns the exit status."""
    view = LogView(console, config.log_level, raw=raw)
    log_through(view)
    compile_missing(config.engine, console)
    try:
        return asyncio.run(_run(config, console, view))
    except (StackFailed, BrokerMissing) as error:
        # What a failed child said last stands in the log just above.
        reason = str(error).splitlines()[-1]
        line = f"[bold red]antiphon up:[/] {escape(reason)}"
        console.print(line, highlight=False, soft_wrap=True)
        return _EXIT_FAILED


async def _run(config: StackConfig, console: Console, view: LogView) -> int:
    stack = LocalStack(config, view.line)
    me = asyncio.current_task()
    assert me is not None
    interrupted = 0

    def interrupt() -> None:
        nonlocal interrupted
        interrupted += 1
        if interrupted > 1:
            stack.kill()
        else:
            console.print("\n[dim]stopping; once more to stop at once[/]")
            me.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, interrupt)
    waiting = asyncio.create_task(_show_waiting(stack, console))
    try:
        async with stack:
            waiting.cancel()
            console.print(_banner(stack), highlight=False, soft_wrap=True)
            for line in late(stack.late):
                console.print(line, highlight=False, markup=False, soft_wrap=True, style="yellow")
            for line in left_out(stack.left_out):
                console.print(line, highlight=False, markup=False, soft_wrap=True, style="red")
            await stack.wait()
    except asyncio.CancelledError:
        if not interrupted:
            raise
    finally:
        waiting.cancel()
    return _EXIT_OK


async def _show_waiting(stack: LocalStack, console: Console) -> None:
    """Say what has not started yet, until cancelled: on a terminal in its last line."""
    began_s, shown = time.monotonic(), ""
    with console.status("starting") as status:
        while True:
            text = waiting_for(stack.waiting, stack.serving)
            if text and text != shown and not console.is_terminal:
                console.print(text, soft_wrap=True)
            status.update(f"{text} [dim]{time.monotonic() - began_s:.0f} s[/]")
            shown = text
            await asyncio.sleep(_LOOK_S)


def waiting_for(names: Sequence[str], serving: Sequence[str] = ()) -> str:
    """What a person who waits for these processes may want to know."""
    if not names:
        return ""
    engines = any(name.startswith(("talker", "vocoder", "pair")) for name in names)
    why = " (engines load the voice and warm up)" if engines else ""
    already = f"{', '.join(serving)} can be heard; " if serving else ""
    return f"{already}waiting for {', '.join(names)}{why}"


def late(models: Sequence[str]) -> list[str]:
    """A line for each model that is served as soon as it is ready."""
    return [f"{name} is not ready yet: it is served as soon as it is" for name in models]


def left_out(models: Mapping[str, str]) -> list[str]:
    """A line for each model that is not served; they are the last ones before the log."""
    return [f"{name} is not served: {reason}" for name, reason in models.items()]


def _banner(stack: LocalStack) -> str:
    key = _KEYS in stack.config.environ.get("gateway", {})
    rows = [("listen", " ".join(f"[bold cyan]{url}[/]" for url in _addresses(stack)))]
    if key:
        rows.append(("key", "[dim]one of your keys file:[/] export ANTIPHON_API_KEY=..."))
    rows += [
        ("speak", f'antiphon say --url {stack.url} "Hello, world."'),
        ("curl", _curl(stack.url, key=key)),
        ("stop", f"Ctrl-C [dim]or kill {os.getpid()}[/]"),
    ]
    processes = [
        (name, f"[dim]pid {child.pid}, {_ports(child)}[/]")
        for name, child in stack.children.items()
        if child.ready.is_set()
    ]
    lines = [f"  [dim]{name:<10}[/] {text}" for name, text in (*rows, ("", ""), *processes)]
    return "\n".join(["", "  [bold]Antiphon is up[/]", "", *lines, ""])


def _curl(url: str, *, key: bool) -> str:
    """A command that speaks, for a person to copy."""
    credentials = ' -H "authorization: Bearer $ANTIPHON_API_KEY"' if key else ""
    body = """-H content-type:application/json -d '{"input": "Hello, world."}'"""
    return f"curl -fsS {url}/v1/audio/speech{credentials} {body} -o hello.mp3"


def _addresses(stack: LocalStack) -> list[str]:
    """From this machine and, where it listens on all addresses, from others."""
    host, port = stack.config.host, stack.children["gateway"].ports["http"]
    if host not in _EVERYWHERE:
        return [stack.url]
    return [stack.url, *(address(found, port) for found in _own_addresses())]


def _own_addresses() -> list[str]:
    """The address that packets to the world would leave from; none without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((_ELSEWHERE, 9))  # sends nothing
        except OSError:
            return []
        return [probe.getsockname()[0]]


def _ports(child: Child) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(child.ports.items()))


def log_through(view: LogView) -> None:
    """Show the supervisor's own events between its children's."""

    def show(_: WrappedLogger, __: str, event: MutableMapping[str, Any]) -> str:
        view.event("antiphon", event)
        raise structlog.DropEvent

    structlog.configure(processors=[structlog.processors.add_log_level, show])
