"""What the start-up screen says."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from antiphon import up
from antiphon.stack import LocalStack, StackConfig
from antiphon.up import late, left_out, waiting_for


def test_the_screen_says_what_is_being_waited_for_and_why() -> None:
    assert waiting_for(["broker"]) == "waiting for broker"
    assert waiting_for(["gateway", "talker-1"]) == (
        "waiting for gateway, talker-1 (engines load the voice and warm up)"
    )
    assert waiting_for([]) == ""


def test_the_screen_says_what_can_be_heard_while_others_are_waited_for() -> None:
    assert waiting_for(["talker-big-1"], ["tiny", "vesper"]) == (
        "tiny, vesper can be heard; waiting for talker-big-1 (engines load the voice and warm up)"
    )
    assert late(["big"]) == ["big is not ready yet: it is served as soon as it is"]


def test_the_last_lines_say_which_models_are_not_served_and_why() -> None:
    assert left_out({"vivian": "config.json: rope_theta is 0.0"}) == [
        "vivian is not served: config.json: rope_theta is 0.0"
    ]


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
