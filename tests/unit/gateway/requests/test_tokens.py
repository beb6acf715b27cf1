"""Tokens with which a lost client comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.errors import NotFound
from gateway.requests import ResumeTokens
from gateway.settings import GatewaySettings

OLD, NEW = "o" * 32, "n" * 32


def test_a_token_opens_its_own_request_to_its_own_tenant_alone() -> None:
    tokens = ResumeTokens([NEW])
    token = tokens.issue("r1", "acme")
    tokens.require(token, "r1", "acme")
    for wrong in (("r2", "acme"), ("r1", "globex"), ("r1", "")):
        with pytest.raises(NotFound):
            tokens.require(token, *wrong)
    with pytest.raises(NotFound):
        tokens.require(None, "r1", "acme")


def test_a_secret_that_is_being_replaced_still_opens() -> None:
    token = ResumeTokens([OLD]).issue("r", "")
    settings = GatewaySettings(resume_secret=NEW, previous_resume_secret=OLD)
    ResumeTokens.of(settings).require(token, "r", "")
    with pytest.raises(NotFound):
        ResumeTokens.of(GatewaySettings(resume_secret=NEW)).require(token, "r", "")


def test_gateways_with_one_secret_open_each_others() -> None:
    settings = GatewaySettings(resume_secret=NEW)
    ResumeTokens.of(settings).require(ResumeTokens.of(settings).issue("r", "a"), "r", "a")


def test_without_a_secret_a_gateway_opens_its_own_alone() -> None:
    one, other = ResumeTokens.of(GatewaySettings()), ResumeTokens.of(GatewaySettings())
    token = one.issue("r", "")
    one.require(token, "r", "")
    with pytest.raises(NotFound):
        other.require(token, "r", "")


def test_a_secret_that_is_too_short_to_be_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 32"):
        GatewaySettings(resume_secret="short")
    assert GatewaySettings(resume_secret="").resume_secret is None


def test_a_secret_may_lie_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "resume"
    file.write_text(f"{NEW}\n")
    token = ResumeTokens.of(GatewaySettings(resume_secret=NEW)).issue("r", "")
    settings = GatewaySettings(resume_secret_file=file, previous_resume_secret=OLD)
    ResumeTokens.of(settings).require(token, "r", "")
    ResumeTokens.of(settings).require(ResumeTokens([OLD]).issue("r", ""), "r", "")


@pytest.mark.parametrize(
    ("content", "message"), [("short", "fewer than 32"), (None, "No such file")]
)
def test_a_secrets_file_without_a_secret_is_refused(
    tmp_path: Path, content: str | None, message: str
) -> None:
    file = tmp_path / "resume"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ValueError, match=message):
        GatewaySettings(resume_secret_file=file)


def test_a_secret_and_a_file_of_it_contradict_each_other(tmp_path: Path) -> None:
    file = tmp_path / "resume"
    file.write_text(NEW)
    with pytest.raises(ValueError, match="one of"):
        GatewaySettings(resume_secret=NEW, resume_secret_file=file)
