"""A family without a network: both stages speak the whole protocol at calibrated speed."""

from typing import Annotated

import msgspec

# In a curve's file: no step lasts so long, which is a mistake of milliseconds; none has no stream.
Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=10.0)]
Counted = Annotated[int, msgspec.Meta(ge=1)]
