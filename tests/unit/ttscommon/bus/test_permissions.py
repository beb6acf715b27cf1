"""Users of the broker: what each service may do, and their passwords, made once for each."""

import subprocess
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path

import pytest

from antiphon.stack.broker import find_server
from ttscommon.bus.__main__ import main
from ttscommon.bus.credentials import accounts, issue
from ttscommon.bus.permissions import ROLES, Permissions, Role, permissions

SERVICES: tuple[Role, ...] = ("gateway", "talker", "vocoder")


def allows(rules: Iterable[str], subject: str) -> bool:
    return any(_matches(rule.split("."), subject.split(".")) for rule in rules)


def _matches(rule: list[str], subject: list[str]) -> bool:
    for wanted, token in zip_longest(rule, subject):
        if wanted == ">":
            return token is not None
        if token is None or wanted not in ("*", token):
            return False
    return True


def rights(role: Role, prefix: str = "antiphon") -> Permissions:
    return permissions(role, prefix, ["vesper"])


_STREAM = "$JS.API.STREAM"
_PULL = "$JS.API.CONSUMER.MSG.NEXT.antiphon"
_LEXICON = "$KV.antiphon-lexicons.owner.name.entries"


@pytest.mark.parametrize(
    ("subject", "publish"),
    [
        (f"{_STREAM}.CREATE.antiphon-TALK_JOBS", {"setup"}),
        (f"{_STREAM}.DELETE.antiphon-TALK_JOBS", set()),
        (f"{_STREAM}.UPDATE.antiphon-CODES", {"setup"}),
        (f"{_STREAM}.DELETE.antiphon-CODES", set()),
        (f"{_STREAM}.DELETE.KV_antiphon-leases", set()),
        (f"{_STREAM}.DELETE.antiphon-JOBS", {"setup"}),  # which is retired
        ("$JS.API.DIRECT.GET.antiphon-CODES", {*SERVICES}),
        ("$JS.API.DIRECT.GET.KV_antiphon-replicas", {*SERVICES}),  # an upgrade waits for them
        ("antiphon.ctl.lookup.talker-1", {"gateway"}),
        ("antiphon.job.talk.vesper.r", {"gateway"}),
        ("antiphon.job.voc.vesper.r", {"talker", "gateway"}),  # which has sound made again
        (f"{_PULL}-TALK_JOBS.antiphon-talk-vesper", {"talker"}),
        (f"{_PULL}-TALK_JOBS.antiphon-talk-other", set()),  # a model that is not served
        (f"{_PULL}-VOCODE_JOBS.antiphon-voc-vesper", {"vocoder"}),
        (_LEXICON, {"gateway"}),
        ("$JS.API.DIRECT.GET.KV_antiphon-lexicons", {"gateway"}),
        (f"$JS.API.DIRECT.GET.KV_antiphon-lexicons.{_LEXICON}", {"gateway"}),
        (f"{_STREAM}.MSG.GET.KV_antiphon-lexicons", {"gateway"}),
        (f"{_STREAM}.CREATE.KV_antiphon-lexicons", {"setup"}),
        (f"{_STREAM}.RESTORE.KV_antiphon-lexicons", {"setup"}),
        (f"{_STREAM}.SNAPSHOT.KV_antiphon-lexicons", {"backup"}),
    ],
)
def test_who_may_publish(subject: str, publish: set[Role]) -> None:
    assert {role for role in ROLES if allows(rights(role).publish, subject)} == publish


@pytest.mark.parametrize(
    ("role", "writes", "hears"),
    [
        ("gateway", "text", "live.audio"),
        ("talker", "codes", "live.text"),
        ("vocoder", "audio", "live.codes"),
    ],
)
def test_each_log_has_one_role_that_writes_it(role: Role, writes: str, hears: str) -> None:
    may = rights(role)
    for log in ("text", "codes", "audio"):
        assert allows(may.publish, f"antiphon.{log}.r") == (log == writes)
        assert allows(may.publish, f"antiphon.live.{log}.r") == (log == writes)
        assert allows(may.subscribe, f"antiphon.live.{log}.r") == (f"live.{log}" == hears)
        kept = log != "audio" and f"live.{log}" == hears
        assert allows(may.subscribe, f"antiphon.{log}.r") == kept
    assert allows(may.subscribe, "antiphon.ctl.lookup.w") == (role != "gateway")


@pytest.mark.parametrize("role", ROLES)
def test_answers_to_one_role_are_heard_by_no_other(role: Role) -> None:
    for other in ROLES:
        heard = allows(rights(role).subscribe, f"_INBOX_antiphon_{other}.x.y")
        assert heard == (other == role)


@pytest.mark.parametrize("role", ROLES)
def test_nobody_reaches_into_another_deployment(role: Role) -> None:
    mine, theirs = rights(role, "mine"), rights(role, "theirs")
    ours = set(mine.publish) & set(theirs.publish) | set(mine.subscribe) & set(theirs.subscribe)
    # How much the account holds in all, and nothing of what.
    assert ours <= {"$JS.API.INFO"}
    assert not ours or role == "setup"


def test_the_system_user_only_listens_and_no_service_hears_its_account() -> None:
    for role in SERVICES:
        assert not allows(rights(role).subscribe, "$SYS.ACCOUNT.ANTIPHON.DISCONNECT")
    system = rights("system")
    assert system.publish == ()
    assert allows(system.subscribe, "$SYS.ACCOUNT.ANTIPHON.DISCONNECT")
    assert not allows(system.subscribe, "$SYS.ACCOUNT.ANTIPHON.CONNECT")


def test_the_brokers_configuration_names_every_user_and_no_password() -> None:
    text = accounts("antiphon", ["vesper"])
    for role in (*ROLES, "system"):
        assert f"user: {role}, password: ${role.upper()}_PASSWORD" in text
    assert text.count('deny: ">"') == 1  # the system user publishes nothing


# Passwords of a deployment on one machine

EVERYTHING = {
    "backup/password",
    "broker/accounts.conf",
    "gateway/password",
    "gateway/resume",
    "gateway/system",
    "setup/password",
    "talker/password",
    "vocoder/password",
}


def contents(folder: Path) -> dict[str, str]:
    """Every file below `folder`, by its path."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def test_each_service_finds_its_own_password_and_no_others(tmp_path: Path) -> None:
    issue(tmp_path, "antiphon", ["vesper"])
    found = contents(tmp_path)
    assert found.keys() == EVERYTHING
    secrets = [text for name, text in found.items() if not name.startswith("broker")]
    assert len(set(secrets)) == len(secrets)
    assert all(len(secret) >= 32 for secret in secrets)
    assert all(found[f"{role}/password"] in found["broker/accounts.conf"] for role in ROLES)
    assert found["gateway/resume"] not in found["broker/accounts.conf"]


def test_what_was_made_is_kept_and_what_is_lost_is_made_again(tmp_path: Path) -> None:
    issue(tmp_path, "antiphon", ["vesper"])
    before = contents(tmp_path)
    (tmp_path / "talker/password").unlink()
    assert issue(tmp_path, "antiphon", ["vesper"]) == ["talker/password"]
    after = contents(tmp_path)
    changed = {name for name in EVERYTHING if before[name] != after[name]}
    assert changed == {"talker/password", "broker/accounts.conf"}
    assert issue(tmp_path, "antiphon", ["vesper"]) == []
    assert contents(tmp_path) == after


def test_the_broker_takes_the_accounts_and_serves_every_model_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["issue", str(tmp_path), "--model", "vesper", "tiny"]) == 0
    assert "setup/password" in capsys.readouterr().out
    accounts = tmp_path / "broker/accounts.conf"
    assert "antiphon-talk-tiny" in accounts.read_text()
    subprocess.run([find_server(), "-t", "-c", accounts], check=True, timeout=20)


def test_a_folder_that_cannot_be_written_is_said_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gateway").write_text("not a folder")
    assert main(["issue", str(tmp_path), "--model", "vesper"]) == 1
    assert "gateway" in capsys.readouterr().err
