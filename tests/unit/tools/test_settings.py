"""The page of settings is what the code says."""

import pytest

from tools.settings import PATH, SECTIONS, page
from ttscommon.process.settings import PREFIX, SettingsError


def test_the_page_is_written_from_the_code() -> None:
    assert PATH.read_text("utf-8") == page(), "run python -m tools.settings"


def test_every_setting_says_what_it_does() -> None:
    fields = [(name, field) for section in SECTIONS for name, field in section.fields()]
    assert len(fields) > 50
    assert [name for name, field in fields if not field.description] == []


@pytest.mark.parametrize("service", [s.model for s in SECTIONS if hasattr(s.model, "load")])
def test_every_variable_of_the_page_is_read_by_its_service(service: type) -> None:
    known = {name for s in SECTIONS if issubclass(service, s.model) for name, _ in s.fields()}
    assert known
    for name in known:
        with pytest.raises(SettingsError) as refusal:
            service.load({name: "{}", f"{PREFIX}NO_SUCH": "1"})  # type: ignore[attr-defined]
        assert f"{PREFIX}NO_SUCH: no such setting" in str(refusal.value)
        assert f"{name}: no such setting" not in str(refusal.value)
