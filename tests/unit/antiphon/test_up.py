"""What is done and said before the first start."""

import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from antiphon import up
from antiphon.stack import LocalStack, StackConfig, StackFailed
from antiphon.stack.broker import BrokerProgram, Credentials
from antiphon.starting import compile_missing
from antiphon.up import LogView, late, left_out, waiting_for
from ttscommon.engine.kernels import ahead, kept


def test_the_screen_says_what_is_being_waited_for_and_why_and_what_can_be_heard() -> None:
    assert waiting_for(["broker"]) == "waiting for broker"
    assert waiting_for(["gateway", "talker-1"]) == (
        "waiting for gateway, talker-1 (engines load the voice and warm up)"
    )
    assert waiting_for([]) == ""
    assert waiting_for(["talker-big-1"], ["tiny", "vesper"]) == (
        "tiny, vesper can be heard; waiting for talker-big-1 (engines load the voice and warm up)"
    )
    assert late(["big"]) == ["big is not ready yet: it is served as soon as it is"]


def test_the_last_lines_say_which_models_are_not_served_and_why() -> None:
    assert left_out({"vivian": "config.json: rope_theta is 0.0"}) == [
        "vivian is not served: config.json: rope_theta is 0.0"
    ]


def test_what_stopped_the_start_is_one_line_however_long_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reason = "the gateway [is] not ready after 120 s; " * 5 + "that is all"

    async def fails(*_: object) -> int:
        raise StackFailed(f"what it said last\n{reason}")

    monkeypatch.setattr(up, "_run", fails)
    # The log of this process is other tests' as well.
    monkeypatch.setattr(up, "log_through", lambda view: None)
    output = io.StringIO()
    assert up.run(StackConfig(engine="fake"), Console(file=output, width=80), raw=False) == 1
    assert output.getvalue() == f"antiphon up: {reason}\n"


def screen(config: StackConfig) -> str:
    stack = LocalStack(config)
    stack.children["gateway"] = SimpleNamespace(  # type: ignore[assignment]
        ports={"http": 8123}, pid=1, ready=SimpleNamespace(is_set=lambda: False)
    )
    return up._banner(stack)


def test_addresses_that_stand_for_all_are_told_as_those_that_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(up, "_own_addresses", lambda: ["10.1.2.3"])
    text = screen(StackConfig(host="0.0.0.0"))
    assert "http://127.0.0.1:8123" in text
    assert "http://10.1.2.3:8123" in text
    assert "0.0.0.0" not in text
    assert "http://[::1]:8123" in screen(StackConfig(host="::"))
    assert "10.1.2.3" not in screen(StackConfig())


def test_commands_bring_a_key_where_keys_are_needed() -> None:
    assert "ANTIPHON_API_KEY" not in screen(StackConfig())
    keys = {"gateway": {"ANTIPHON_KEYS_FILE": "keys.toml"}}
    text = screen(StackConfig(environ=keys))
    assert "export ANTIPHON_API_KEY=" in text
    assert '-H "authorization: Bearer $ANTIPHON_API_KEY"' in text


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
    early = "Error trying to connect to route (attempt 1): dial tcp 127.0.0.1:1: refused"
    closing = "Failed to install snapshot for 'A > B > c' [C-R3F-x]: store is closed"
    for told in (early, closing):
        assert shown(("broker-2", f"[9] 2026/01/02 03:04:05.678901 [ERR] {told}")) == ""
    assert "Server is ready" in shown(chatter, level="debug")


def test_what_is_no_event_is_shown_as_it_is() -> None:
    assert "Segmentation fault" in shown(("talker-1", "Segmentation fault"))
    assert "{broken" in shown(("talker-1", "{broken"))
    assert "[bold]" in shown(("talker-1", "[bold]markup is text"))


def test_raw_passes_lines_through() -> None:
    assert shown(("gateway", '{"event": "x"}'), raw=True) == '{"event": "x"}\n'


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands that were run, beside an empty cache."""
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, check: commands.append(command))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return commands


def test_a_first_start_says_that_it_compiles_and_a_later_one_nothing(ran: list[list[str]]) -> None:
    console = Console(record=True, width=80)
    compile_missing("torch", console)
    assert ran == [[sys.executable, "-m", "ttscommon.engine.kernels.ahead"]]
    assert "compiling kernels for this machine, once" in console.export_text()
    kept.complete(kept.sources()).touch()
    compile_missing("torch", console)
    assert (len(ran), console.export_text()) == (1, "")


def test_engines_without_kernels_wait_for_none(ran: list[list[str]]) -> None:
    compile_missing("fake", Console(record=True))
    assert ran == []
    assert not ahead.compiled()


@pytest.mark.parametrize(
    ("processors", "own", "threads"),
    [(None, "", "1"), (2, "", "1"), (16, "", "4"), (16, "7", "7")],
)
def test_a_broker_beside_engines_takes_few_threads_unless_told_how_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processors: int | None, own: str, threads: str
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    monkeypatch.delenv("GOMAXPROCS", raising=False)
    if own:
        monkeypatch.setenv("GOMAXPROCS", own)
    command = BrokerProgram("broker", tmp_path, Credentials()).command({})
    assert command.environ == {"GOMAXPROCS": threads}
