"""The lists that menus are made of."""

from __future__ import annotations

from gateway.protocols.openai.lists import default_first


def test_the_default_model_leads_the_list() -> None:
    assert default_first(["joe", "vesper", "amber"], "vesper") == ["vesper", "amber", "joe"]
    assert default_first(["joe", "amber"], "vesper") == ["amber", "joe"]
