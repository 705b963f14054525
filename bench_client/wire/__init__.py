"""Bytes to records. Everything but `client` and `sdk` is pure."""
