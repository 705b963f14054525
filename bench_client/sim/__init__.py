"""The embedded engine: a server that behaves like SGLang or vLLM and knows what it really sent.

`engine`, `sequence`, `vocabulary`, `asks` and the payload modules are pure.
"""
