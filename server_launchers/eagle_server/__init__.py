"""An OpenAI-compatible server over EAGLE's own EaModel, for measuring it like any other engine.

It runs in EAGLE's environment (`python -m server_launchers.eagle_server --help`), so it takes
nothing but the standard library, torch, transformers and EAGLE itself.
"""
