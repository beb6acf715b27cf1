"""A chart as an artifact of a registry: what `helm push` sends, as an OCI image layout."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

CONFIG: Final = "application/vnd.cncf.helm.config.v1+json"
CONTENT: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_INDEX: Final = "application/vnd.oci.image.index.v1+json"
_ABOUT: Final = "org.opencontainers.image"


def layout(folder: Path, packed: bytes, about: Mapping[str, Any]) -> str:
    """Write it to a new folder. packed: the chart's archive. about: its Chart.yaml.

    Returns the manifest's digest, by which the artifact is signed.
    """
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _blob(folder, CONFIG, _json(about)),
        "layers": [_blob(folder, CONTENT, packed)],
        "annotations": {
            f"{_ABOUT}.title": about["name"],
            f"{_ABOUT}.version": about["version"],
        },
    }
    found = _blob(folder, _MANIFEST, _json(manifest))
    index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [found]}
    (folder / "index.json").write_bytes(_json(index))
    (folder / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
    return str(found["digest"])


def _blob(folder: Path, kind: str, data: bytes) -> dict[str, Any]:
    """Store it by its hash, and describe it."""
    digest = hashlib.sha256(data).hexdigest()
    path = folder / "blobs/sha256" / digest
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}


def _json(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
