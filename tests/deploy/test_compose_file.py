"""compose.yaml as a text: what can be told of it without a container engine."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from antiphon.pair import load_settings
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


def test_a_pair_has_the_passwords_of_both_stages_and_one_process_has_the_gpu(
    tmp_path: Path,
) -> None:
    services = compose()["services"]
    found = services["pair-gpu"]
    assert found["profiles"] == ["pair"]
    assert found["build"]["args"]["SERVICE"] == "pair"
    for user, folder in (("talker", "bus"), ("vocoder", "vocoder")):
        assert f"bus-{user}:/run/antiphon/{folder}:ro" in found["volumes"]
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "password").write_text(f"of the {user}")
    environment = {
        key: expanded(str(value)).replace("/run/antiphon", str(tmp_path))
        for key, value in found["environment"].items()
    }
    talking, vocoding = load_settings(environment)
    assert (talking.bus.user, vocoding.bus.user) == ("talker", "vocoder")
    assert vocoding.bus.password_file == tmp_path / "vocoder/password"
    assert found["deploy"] == services["talker-gpu"]["deploy"]


def expanded(value: str) -> str:
    """With the defaults of its variables."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)
