"""One line of what `bench-client doctor` finds."""

from typing import Literal

from msgspec import Struct

GIB = 2**30


class Row(Struct, frozen=True, kw_only=True):
    """One finding. `advice` says what to do, where there is something.

    `stops`: a server that this is about cannot start.
    """

    name: str
    status: Literal["ok", "optional", "warning", "missing", "unusable"]
    detail: str
    advice: str = ""
    stops: bool = False
