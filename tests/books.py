"""Small books, made where a test needs them."""

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Final

CONTAINER: Final = """<?xml version="1.0"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">
<rootfiles><rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/>
</rootfiles></container>"""

PACKAGE: Final = """<?xml version="1.0" encoding="utf-8"?>
<package version="3.0" xmlns="http://www.idpf.org/2007/opf" unique-identifier="id">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:opf="http://www.idpf.org/2007/opf">
<dc:title>The Lamps &amp; the Tide</dc:title>
<dc:creator id="ann">Ann Wright</dc:creator>
<dc:creator id="ill">Ivo Pen</dc:creator>
<meta refines="#ill" property="role" scheme="marc:relators">ill</meta>
<dc:language>en-GB</dc:language></metadata>
<manifest>
<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>
<item id="c1" href="text/one%20.xhtml" media-type="application/xhtml+xml"/>
<item id="c2" href="text/two.xhtml" media-type="application/xhtml+xml"/>
<item id="notes" href="text/notes.xhtml" media-type="application/xhtml+xml"/>
<item id="pic" href="cover.png" media-type="image/png" properties="cover-image"/>
</manifest>
<spine><itemref idref="nav"/><itemref idref="c2"/><itemref idref="c1"/>
<itemref idref="notes" linear="no"/></spine></package>"""

NAV: Final = """<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops">
<body><nav epub:type="toc"><h1>Contents</h1><ol>
<li><a href="text/two.xhtml">The first
 chapter</a><ol><li><a href="text/two.xhtml#later">Later</a></li></ol></li>
<li><a href="text/one%20.xhtml">The second chapter</a></li></ol></nav>
<nav epub:type="landmarks"><ol><li><a href="text/two.xhtml">Start</a></li></ol></nav>
</body></html>"""

TWO: Final = """<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN"
 "http://www.w3.org/TR/xhtml11/DTD/xhtml11.dtd">
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops">
<head><title>Not read</title><style>p {}</style></head><body>
<h1>One</h1><p>The lamps&nbsp;are
 <em>lit</em>.<a epub:type="noteref" href="#n">1</a><sup><a href="#n">2</a></sup> On the
 19<sup>th</sup>.</p>
<div><span epub:type="pagebreak" title="7">7</span>Bare text
<p>Ann: Good evening.<br/>Bob: Is it?</p></div>
<p>* * *</p>
<aside epub:type="footnote" id="n"><p>A note.</p></aside><div role="doc-toc"><p>One</p></div>
<p id="later">It is la&#173;ter.</p></body></html>"""

ONE: Final = """<html xmlns="http://www.w3.org/1999/xhtml"><body><h2>Two</h2><p>The tide.</p>
</body></html>"""


def png() -> bytes:
    """A dot."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    head = struct.pack(">2I5B", 1, 1, 8, 2, 0, 0, 0)
    body = zlib.compress(b"\0\xff\x80\0")
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


FILES: Final[Mapping[str, str | bytes]] = {
    "META-INF/container.xml": CONTAINER,
    "OEBPS/book.opf": PACKAGE,
    "OEBPS/nav.xhtml": NAV,
    "OEBPS/text/one .xhtml": ONE,
    "OEBPS/text/two.xhtml": TWO,
    "OEBPS/text/notes.xhtml": ONE,
    "OEBPS/cover.png": png(),
}


def epub(**changes: str | bytes | None) -> io.BytesIO:
    """The book of FILES. changes: other content by the end of a file's name, with `_` for a dot;
    None leaves it out.
    """
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        for name, content in FILES.items():
            key = name.rpartition("/")[2].replace(".", "_").replace(" ", "")
            given = changes.get(key, content)
            if given is not None:
                archive.writestr(name, given)
    made.seek(0)
    return made
