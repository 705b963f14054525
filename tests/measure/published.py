"""Token rates (tok/s) of a published note: Qwen3-8B, 16 bit, one L40, 11 prompts in a chain."""

_VLLM_TOKENS = (1166, 647, 1481, 1644, 839, 1543, 1056, 2200, 1415, 1538, 2188)
_VLLM_SECONDS = (27.20, 15.15, 34.53, 38.48, 19.70, 36.50, 24.61, 51.44, 33.09, 36.10, 51.08)
_EAGLE3_TOKENS = (830, 1377, 1907, 1852, 1315, 2176, 2044, 2417, 1901, 1898)
_EAGLE3_SECONDS = (14.67, 23.12, 30.37, 30.48, 21.64, 31.46, 32.62, 39.54, 31.13, 30.32)

# End to end.
VLLM = tuple(n / s for n, s in zip(_VLLM_TOKENS, _VLLM_SECONDS, strict=True))
VLLM_EAGLE3 = tuple(n / s for n, s in zip(_EAGLE3_TOKENS, _EAGLE3_SECONDS, strict=True))
# End to end, transformers with EAGLE's own generation.
EAGLE3 = (57.288, 61.193, 65.739, 61.053, 59.407, 67.728, 60.498, 57.452, 57.113, 52.048, 59.495)
# Decoding only, from log lines, with their accept lengths.
SGLANG = (44.34, 44.16, 43.91, 43.71, 43.93, 44.13, 43.94, 44.07, 44.11, 43.81, 43.84)
SGLANG_EAGLE3 = (80.28, 75.12, 97.56, 71.04, 79.04, 101.87, 92.61, 101.80, 108.06, 94.86, 84.59)
SGLANG_ACCEPT = (3.45, 3.23, 4.22, 3.08, 3.42, 4.38, 4.00, 4.40, 4.65, 4.10, 3.65)
