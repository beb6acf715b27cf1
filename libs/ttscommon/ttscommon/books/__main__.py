"""See ttscommon.books.apart."""

import sys

from ttscommon.books.apart import serve

serve(sys.stdin.buffer, sys.stdout.buffer)
