"""Kernels run in Triton's interpreter here, which has to be chosen before Triton is imported."""

from __future__ import annotations

import os

os.environ.setdefault("TRITON_INTERPRET", "1")
