"""The accept length that an engine's own log tells."""

from bench_client.imports.sglang_log import decode_lines, one_rank_each, sglang_accept_length
from bench_client.imports.vllm_log import spec_lines, vllm_accept_length


def log_accept_length(text: str) -> float | None:
    """Accept length that the engine's own log gives for a window of it; None without such lines."""
    value = sglang_accept_length(one_rank_each(decode_lines(text)))
    return vllm_accept_length(spec_lines(text)) if value is None else value
