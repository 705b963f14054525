"""What `transformers serve` says of itself while it starts, if asked by `--log-level info`."""

import json
import re
from typing import Any

from .facts import ServerFacts


def from_transformers_log(log: str) -> ServerFacts:
    """The log of transformers 5.5 to 5.24 from its start on.

    The configuration is logged each time that it is read, only once with the dtype that was asked
    for (or "auto"): the dtype is null where that differs from the checkpoint's own.
    """
    configs = _configs("Model config", log)
    first = configs[0] if configs else {}
    dtypes = {config.get("dtype") for config in configs} - {"auto"}
    generation = _configs("Generate config", log)
    defaults = generation[-1] if generation else None  # before, the model's own is not read yet
    loading = re.search(r"Loading (.+?)(?:@main)?$", log, re.MULTILINE)
    return ServerFacts(
        engine_version=first.get("transformers_version"),
        model=loading[1] if loading else None,
        dtype=dtypes.pop() if len(dtypes) == 1 else None,
        context_length=first.get("max_position_embeddings"),
        speculates=None if defaults is None else bool(defaults.get("prompt_lookup_num_tokens")),
        samples=None if defaults is None else bool(defaults.get("do_sample")),
        speculative=_prompt_lookup(defaults or {}),
    )


def _prompt_lookup(defaults: dict[str, Any]) -> dict[str, Any] | None:
    """It takes no draft model: generate() speculates only where the model's own defaults say so."""
    steps = defaults.get("prompt_lookup_num_tokens")
    if not steps:
        return None
    return {
        "method": "prompt_lookup",
        "num_steps": steps,
        "topk": 1,
        "num_draft_tokens": steps + 1,
    }


def _configs(title: str, log: str) -> list[dict[str, Any]]:
    """Each configuration logged under `title`: JSON over several lines."""
    found = re.findall(rf"{title} \w+ (\{{\n.*?\n\}})$", log, re.MULTILINE | re.DOTALL)
    return [json.loads(text) for text in found]
