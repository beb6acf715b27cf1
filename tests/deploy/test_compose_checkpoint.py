"""A published checkpoint in compose.yaml, served as docs/deploy.md says."""

from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from tests.deploy.engine import ComposeStack, deployed, docker, running
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint

pytestmark = deployed


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeStack]:
    """A stack whose one model is a checkpoint with drawn weights."""
    folder = tmp_path_factory.mktemp("checkpoint")
    write_checkpoint(folder / "voices/tiny", "tiny", "custom_voice", seed=5, ending=5.0)
    for path in (folder / "voices").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (folder / "voices").chmod(0o755)
    model = {"MODEL": "tiny", "VOICES": str(folder / "voices"), "WEIGHTS": "voices/tiny"}
    with running(folder, **model) as stack:
        yield stack


async def test_a_checkpoint_speaks_with_the_images_as_they_are(stack: ComposeStack) -> None:
    async with httpx.AsyncClient(base_url=stack.url, timeout=120) as http:
        models = (await http.get("/v1/models")).json()["data"]
        assert [model["id"] for model in models] == ["tiny"]
        body = {"input": "Hello there.", "voice": "vivian", "seed": 16, "response_format": "pcm"}
        response = await http.post("/v1/audio/speech", json=body)
    assert response.status_code == 200, response.text
    assert np.abs(np.frombuffer(response.content, "<i2")).max() > 100
    assert "iolation" not in stack.log("nats")


@pytest.mark.parametrize("stage", ["talker", "vocoder"])
def test_an_engines_image_has_the_hubs_client_and_a_place_for_what_it_downloads(
    stack: ComposeStack, stage: str
) -> None:
    program = "import huggingface_hub, os; open(os.environ['HF_HOME'] + '/probe', 'w').close()"
    for container in stack.containers(stage):
        docker("exec", container, "python", "-c", program)
