"""What the project is built of is named exactly, and looked at for updates."""

from __future__ import annotations

import re

import yaml

from tests.unit.test_imports import ROOT


def test_actions_are_pinned_to_commits() -> None:
    used = [
        step["uses"]
        for path in (ROOT / ".github/workflows").glob("*.yaml")
        for job in yaml.safe_load(path.read_text())["jobs"].values()
        for step in job["steps"]
        if "uses" in step
    ]
    assert used
    assert all(re.search(r"@[0-9a-f]{40}$", one) for one in used)


def test_every_kind_of_dependency_is_updated() -> None:
    updates = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text())["updates"]
    assert {one["package-ecosystem"] for one in updates} == {"github-actions", "docker", "pip"}
