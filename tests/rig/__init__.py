"""A rigged target model and EAGLE3 head whose output and accept length are known in advance.

`pair` writes them (run with an engine's Python: torch and safetensors); `expect` says what they do.
"""
