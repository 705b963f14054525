"""Stands in for modules that SGLang imports and, serving a text model on a CPU, never uses."""

from typing import Any


class _AnyMember(type):
    def __getattr__(cls, name: str) -> "type[Placeholder]":
        return __getattr__(name)


class Placeholder(metaclass=_AnyMember):
    """Takes the place of any class, function or enum, as long as nobody uses it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("only the real torchvision or sgl_kernel can do this")


def __getattr__(name: str) -> type[Placeholder]:
    """A module's attributes: import this function into the module to be stubbed."""
    if name.startswith("__"):
        raise AttributeError(name)
    return Placeholder
