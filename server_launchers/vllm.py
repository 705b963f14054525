"""vLLM's server: `vllm serve` with EAGLE3 as a chain of drafts."""

import json
from typing import Any

from msgspec import structs

from .drafts import check_chain
from .flags import option, takes
from .settings import LaunchCommand, LaunchSettings, asked
from .urls import root


def command(s: LaunchSettings) -> LaunchCommand:
    """Settings -> `vllm serve`. Raises SettingsError for a draft tree."""
    served = s.served_model_name or s.model
    argv = [s.engine_python or "python3", "-m", "vllm.entrypoints.cli.main", "serve", s.model]
    argv += ["--host", s.host, "--port", str(s.port), "--served-model-name", served]
    argv += option("--dtype", s.dtype)
    argv += option("--max-model-len", s.context_length)
    argv += option("--gpu-memory-utilization", s.memory_fraction)
    argv += option("--max-num-seqs", s.concurrency)  # graphs are captured for what will run
    argv += option("--seed", s.seed)
    if s.speculative:
        argv += ["--speculative-config", json.dumps(_speculative_config(s))]
        if takes(s, "--per-request-spec-decode-metrics", since=(0, 31)):
            argv += ["--per-request-spec-decode-metrics", "summary"]
    return LaunchCommand(
        name=s.name,
        engine="vllm",
        argv=(*argv, *s.extra_args),
        env=s.env,
        url=root(s.host, s.port),
        model=s.model,
        draft_model=s.draft_model,
        served_model_name=served,
        engine_version=s.engine_version,
        speculative_asked=_asked(s),
        simulated=s.simulate_accept_length is not None,
    )


def _speculative_config(s: LaunchSettings) -> dict[str, Any]:
    check_chain(s, "vLLM")
    config: dict[str, Any] = {"method": "eagle3", "model": s.draft_model}
    if s.spec_steps is not None:
        config["num_speculative_tokens"] = s.spec_steps
    if s.simulate_accept_length is not None:
        config["rejection_sample_method"] = "synthetic"
        config["synthetic_acceptance_length"] = s.simulate_accept_length
    return config


def _asked(s: LaunchSettings) -> dict[str, Any] | None:
    """A chain of n drafts verifies n + 1 tokens a step."""
    if not s.speculative or s.spec_steps is None:
        return asked(s)
    return asked(structs.replace(s, spec_topk=1, spec_draft_tokens=s.spec_steps + 1))
