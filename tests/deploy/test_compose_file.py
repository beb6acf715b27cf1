"""compose.yaml as a text: what can be told of it without a container engine."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.deploy.chart import ROOT
from ttscommon.bus.__main__ import _parser
from ttscommon.bus.permissions import ROLES


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return found


def test_every_user_of_the_broker_has_a_volume_for_its_password_and_a_folder_in_the_image() -> None:
    mounts = compose()["services"]["identities"]["volumes"]
    made = re.search(r"for user in ([\w ]+); do", (ROOT / "Dockerfile").read_text())
    assert made is not None
    for role in (*ROLES, "broker"):
        assert f"bus-{role}:/run/antiphon/{role}" in mounts
        assert f"bus-{role}" in compose()["volumes"]
        assert role in made.group(1).split()


@pytest.mark.parametrize(("service", "user"), [("backup", "backup"), ("restore", "setup")])
def test_backups_are_made_and_restored_by_their_users(service: str, user: str) -> None:
    found = compose()["services"][service]
    assert found["environment"]["ANTIPHON_BUS__USER"] == user
    assert f"bus-{user}:/run/antiphon/bus:ro" in found["volumes"]
    assert any(mount.startswith("backups:/backups") for mount in found["volumes"])
    assert _parser().parse_args(found["command"]).action == service
    assert "mkdir /backups" in (ROOT / "Dockerfile").read_text()
