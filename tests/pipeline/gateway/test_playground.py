"""The playground: its page, what that refers to, and what its modules write."""

import base64
import io
import re
import shutil
import subprocess
import wave
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest

from gateway.audio import Provenance
from gateway.audio.provenance import claims

STATIC = Path(__file__).resolve().parents[3] / "services/gateway/gateway/static"


REFERENCE = re.compile(
    r"""(?:from|src=|href=|addModule\(|WORKLET =)\s*["']([^"'#]+\.(?:js|css))["']"""
)


async def parts_of_the_playground(http: httpx.AsyncClient) -> dict[str, httpx.Response]:
    """The page and all that it, its style and its modules refer to, by path."""
    found = {"/": await http.get("/")}
    waiting = ["/"]
    while waiting:
        for name in REFERENCE.findall(found[waiting.pop()].text):
            path = urljoin("/playground/", name)
            if path not in found:
                found[path] = await http.get(path)
                waiting.append(path)
    return found


async def test_the_playground_needs_nothing_from_outside(stand: Any) -> None:
    parts = await parts_of_the_playground(stand.http)
    missing = [await stand.http.get(f"/playground/{path}") for path in ("../app.py", "none.js")]
    policy = parts["/"].headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    kinds = {path: part.headers["content-type"].partition(";")[0] for path, part in parts.items()}
    assert {path for path in kinds if path.endswith(".js")} == {
        f"/playground/{file.name}" for file in STATIC.glob("*.js")
    }
    assert kinds["/playground/page.css"] == "text/css"
    for path, part in parts.items():
        assert part.status_code == 200, path
        assert path == "/" or path.endswith(".css") or kinds[path] == "text/javascript"
        outside = re.findall(r"""(?:src|href|from|url\()=?\s*["'(]?https?://""", part.text)
        assert not outside, path
    assert [response.status_code for response in missing] == [404, 404]


def labelled(page: str, name: str) -> bool:
    inside = rf'<label[^>]*>(?:(?!</label>).)*id="{name}"'
    return re.search(inside, page, re.DOTALL) is not None or bool(
        re.search(rf'id="{name}"[^>]*aria-label=', page)
    )


def test_every_element_that_the_playground_asks_for_is_there_and_labelled() -> None:
    page = (STATIC / "index.html").read_text()
    ids = set(re.findall(r'\bid="([\w-]+)"', page))
    scripts = "".join(file.read_text() for file in STATIC.glob("*.js"))
    asked = set(re.findall(r"""\$\("([\w-]+)"\)""", scripts))
    assert len(asked) > 30
    assert asked <= ids
    fields = re.findall(r'<(?:input|select|textarea)[^>]*\bid="([\w-]+)"', page)
    assert [name for name in fields if not labelled(page, name)] == []


SCRIPT = """
import { origin, subtitles, wav } from "./files.js";
import { waits, whose } from "./takes.js";
console.log([whose(["slt"], 0), whose(["slt", "awb"], 0), whose(["slt", "awb"], 1)].join("|"));
const stages = { bus_s: 0.25, talker_s: 0.5 };
for (const served of [1.25, 2]) {
  console.log(waits({ stages, served, ttfp: 1.5 }).map(([name, s]) => `${name} ${s}`).join(" "));
}
const words = [["Fish", 0.1, 0.4], ["&", 0.4, 0.5], ["chips.", 0.5, 1], ["Now", 3661.5, 3662]];
console.log(subtitles(words.map(([word, start_s, end_s]) => ({ word, start_s, end_s }))));
const head = new DataView(await wav([new Int16Array(3)], 24000).arrayBuffer());
console.log([head.byteLength, head.getUint32(24, true), head.getUint32(40, true)].join(" "));
const told = { model: "vesper", digital_source_type: "trainedAlgorithmicMedia",
               generated_by: "Köln" };
const tagged = await wav([new Int16Array(3)], 24000, origin(told)).arrayBuffer();
process.stdout.write(Buffer.from(tagged).toString("base64"));
"""
SAID = """|Figures and curve of A: slt|Figures and curve of B: awb
bus 0.25 talker 0.5 vocoder 0 gateway 0.5 network 0.25
bus 0.25 talker 0.5 vocoder 0 gateway 0.75 network 0
WEBVTT

00:00:00.100 --> 00:00:01.000
Fish &amp; chips.

01:01:01.500 --> 01:01:02.000
Now

50 24000 6
"""


def test_the_playground_divides_the_wait_says_whose_it_is_and_writes_subtitles_and_wav(
    tmp_path: Path,
) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node")
    for file in STATIC.glob("*.js"):
        shutil.copy(file, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "test.js").write_text(SCRIPT)
    ran = subprocess.run(
        [node, tmp_path / "test.js"], capture_output=True, text=True, check=True, timeout=30
    )
    said, _, tagged = ran.stdout.rpartition("\n")
    assert said + "\n" == SAID
    data = base64.b64decode(tagged)
    assert list(claims(data)) == [Provenance("vesper", "Köln").fields]
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getframerate(), file.readframes(9)) == (24_000, bytes(6))
