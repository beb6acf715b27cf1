"""Every panel of every dashboard shows something of a run under load, by a real Prometheus."""

import shutil
from pathlib import Path

import pytest

from tests.deploy.engine import deployed
from tests.deploy.observe import OF_BROKERS, OF_DRAFTS, OF_STATES, draw, empty, observe
from tools.dashboards import DASHBOARDS


@deployed
async def test_every_panel_shows_a_run_with_overload_deaths_and_leavers(tmp_path: Path) -> None:
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed (Debian: apt-get install prometheus)")
    found = await observe("fake", rates=(2.0, 4.0, 30.0), step_s=12.0)
    assert empty(found) == OF_STATES + OF_DRAFTS + OF_BROKERS
    for dashboard in DASHBOARDS:
        draw(dashboard, found, tmp_path / f"{dashboard.uid}.png")
