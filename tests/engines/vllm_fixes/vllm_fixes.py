"""A vLLM plugin: speculative decoding on CPU at temperatures above 0.

vLLM 0.32.0's CPU stand-in for expand_kernel writes into a temporary copy, so the rejection sampler
divides logits by uninitialized memory instead of the temperature (vllm-project/vllm#55005).
"""

import torch


def expand(
    output: torch.Tensor,
    input_val: torch.Tensor,
    cu_num_tokens: torch.Tensor,
    replace_from: float,
    replace_to: float,
    MAX_NUM_TOKENS: int | None = None,  # noqa: N803 (the kernel's own argument name)
) -> None:
    """Write each request's value once for each of its draft tokens, `replace_from` replaced."""
    values = torch.where(input_val == replace_from, replace_to, input_val)
    counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))
    output.copy_(torch.repeat_interleave(values, counts.long()))


def fix_expand() -> None:
    """Take the place of vLLM's own function before it is registered; loading twice is harmless."""
    from vllm.utils import cpu_triton_utils  # type: ignore[import-not-found]

    cpu_triton_utils._expand_kernel_impl = expand
