"""Stands in for SGLang: see launch_server.py."""
