"""Settings: read once, frozen, unknown names refused."""

import pytest

from ttscommon.process.settings import BusSettings, ServiceSettings, SettingsError


class Example(ServiceSettings):
    """A service's own settings."""

    slots: int = 4


def test_fields_are_read_from_prefixed_variables_in_either_case() -> None:
    assert Example.load({"ANTIPHON_SLOTS": "9"}).slots == 9
    assert Example.load({"antiphon_slots": "9"}).slots == 9


def test_broker_urls_are_a_comma_separated_list_and_nested_fields_combine_with_defaults() -> None:
    settings = Example.load({"ANTIPHON_BUS__URLS": "nats://a:1, nats://b:2,"})
    assert settings.bus == BusSettings(urls=("nats://a:1", "nats://b:2"))
    settings = Example.load({"ANTIPHON_BUS__USER": "me", "ANTIPHON_BUS__REPLICAS": "3"})
    assert settings.bus == BusSettings(user="me", replicas=3)


@pytest.mark.parametrize("name", ["ANTIPHON_SLOT", "ANTIPHON_BUS__URL", "ANTIPHON_X__Y"])
def test_a_name_that_no_field_has_is_refused_by_name(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name.split('__')[0]}.*no such setting"):
        Example.load({name: "1"})


def test_every_wrong_value_is_named_at_once() -> None:
    with pytest.raises(SettingsError, match=r"ANTIPHON_ADMIN_PORT.*ANTIPHON_SLOTS"):
        Example.load({"ANTIPHON_ADMIN_PORT": "70000", "ANTIPHON_SLOTS": "many"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PATH", "/bin"),
        ("SLOTS", "9"),
        ("ANTIPHON_GATEWAY_SERVICE_HOST", "10.0.0.1"),
        ("ANTIPHON_GATEWAY_SERVICE_PORT_HTTP", "80"),
        ("ANTIPHON_PORT", "tcp://10.0.0.1:80"),
        ("ANTIPHON_GATEWAY_PORT_80_TCP_ADDR", "10.0.0.1"),
    ],
)
def test_variables_of_others_and_of_kubernetes_are_no_settings(name: str, value: str) -> None:
    assert Example.load({name: value}) == Example()


def test_the_constructor_never_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_SLOTS", "9")
    assert Example().slots == 4
    assert Example.load().slots == 9


def test_passwords_do_not_show() -> None:
    assert "secret" not in repr(BusSettings(password="secret", system_password="secret"))
