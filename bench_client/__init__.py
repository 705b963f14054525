"""Load benchmarker for LLM inference that shows what speculative decoding buys."""

__version__ = "0.1.0"
