"""SGLang's server: `python -m sglang.launch_server` with EAGLE3 as a chain or a tree of drafts."""

from .flags import at_least, option, takes
from .presets import SettingsError
from .settings import LaunchCommand, LaunchSettings, asked
from .urls import root

# The default of 40 decode iterations leaves a short answer without a single log line, and the
# server's own accept length, which is brought up to date at the same moments, stale.
DECODE_LOG_INTERVAL = 10

# EAGLE3 heads often say that they were made for 2048 tokens, and SGLang refuses a draft that is
# made for fewer than the target. Allowed, it raises the draft's max_position_embeddings (0.5.3 and
# later). For the target itself a length beyond its own is then no more than a warning.
ALLOW_LONGER = {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}


def command(s: LaunchSettings) -> LaunchCommand:
    """Settings -> SGLang's command. Raises SettingsError for what SGLang cannot run."""
    served = s.served_model_name or s.model
    argv = [s.engine_python or "python3", "-m", "sglang.launch_server", "--model-path", s.model]
    argv += ["--served-model-name", served, "--host", s.host, "--port", str(s.port)]
    argv += option("--dtype", s.dtype)
    argv += option("--context-length", s.context_length)
    argv += option("--mem-fraction-static", s.memory_fraction)
    argv += option("--random-seed", s.seed)
    argv += _batch(s)
    argv += ["--enable-metrics", "--decode-log-interval", str(DECODE_LOG_INTERVAL)]
    if s.speculative:
        argv += _speculative(s)
    return LaunchCommand(
        name=s.name,
        engine="sglang",
        argv=(*argv, *s.extra_args),
        env={**(ALLOW_LONGER if s.speculative else {}), **_simulated(s), **s.env},
        url=root(s.host, s.port),
        model=s.model,
        draft_model=s.draft_model,
        served_model_name=served,
        engine_version=s.engine_version,
        speculative_asked=asked(s),
        simulated=s.simulate_accept_length is not None,
        # /v1/models answers before the warm-up is over.
        ready_line="The server is fired up and ready to roll!",
    )


def _batch(s: LaunchSettings) -> list[str]:
    """Room and graphs for the planned concurrency.

    Left alone, SGLang caps EAGLE at 48 running requests and runs batches above its largest graph
    without one: both look like slow speculation.
    """
    if s.concurrency is None:
        return []
    argv = ["--max-running-requests", str(s.concurrency)]
    if s.device == "cpu":
        return argv
    # Since 0.5.14 the old name is an alias at best and, once removed, an ambiguous prefix.
    renamed = takes(s, "--cuda-graph-max-bs-decode", since=(0, 5, 14))
    flag = "--cuda-graph-max-bs-decode" if renamed else "--cuda-graph-max-bs"
    return [*argv, flag, str(s.concurrency)]


def _speculative(s: LaunchSettings) -> list[str]:
    numbers = (s.spec_steps, s.spec_topk, s.spec_draft_tokens)
    if None in numbers and numbers != (None, None, None):
        raise SettingsError(
            f"server {s.name}: SGLang takes spec_steps, spec_topk and spec_draft_tokens together or"
            " chooses all three: give all or none"
        )
    argv = ["--speculative-algorithm", "EAGLE3"]
    argv += option("--speculative-draft-model-path", s.draft_model)
    argv += option("--speculative-num-steps", s.spec_steps)
    argv += option("--speculative-eagle-topk", s.spec_topk)
    argv += option("--speculative-num-draft-tokens", s.spec_draft_tokens)
    return argv


def _simulated(s: LaunchSettings) -> dict[str, str]:
    """Forced acceptance with real draft tokens.

    SGLang's other mode writes one fixed token, which the detokenizer holds back as half a
    character in the vocabularies of Qwen and Llama 3, so that nothing is streamed.
    """
    if s.simulate_accept_length is None:
        return {}
    if s.spec_topk != 1:
        raise SettingsError(
            f"server {s.name}: SGLang simulates acceptance with real tokens for a chain only:"
            " set spec_topk to 1"
        )
    if not at_least(s.engine_version, (0, 5, 16)):
        raise SettingsError(
            f"server {s.name}: SGLang {s.engine_version} simulates acceptance without real tokens,"
            " which streams no text: 0.5.16 or later is needed"
        )
    return {
        "SGLANG_SIMULATE_ACC_LEN": f"{s.simulate_accept_length:g}",
        "SGLANG_SIMULATE_ACC_TOKEN_MODE": "real-draft-token",
    }
