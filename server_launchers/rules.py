"""One row of the table of known failures, whose parts are the files causes_*.py."""

from msgspec import Struct


class Rule(Struct, frozen=True):
    """One row. `near` must be found in the traceback above; no engines means all.

    `lowest_only`: too common in handled errors to be believed further up. `speculative`: only where
    a draft model was loaded.
    """

    kind: str
    pattern: str
    advice: str
    engines: tuple[str, ...] = ()
    near: str = ""
    lowest_only: bool = False
    speculative: bool = False


SGLANG = ("sglang",)
VLLM = ("vllm",)
