from import_stub import __getattr__  # noqa: F401
