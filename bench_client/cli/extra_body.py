"""`--extra-body`: what requests carry beside all that options decide."""

from typing import Any

import click

from bench_client.cli.options import JsonObject

# Sent from there, they would contradict what the plan and the report say of the run.
_OPTIONS = {
    "temperature": "--temperature",
    "max_tokens": "--max-tokens",
    "max_completion_tokens": "--max-tokens",
    "max_new_tokens": "--max-tokens",
    "ignore_eos": "--ignore-eos",
    "seed": "--seed",
    "sampling_seed": "--seed",
    "model": "--served-model-name",
    "messages": "--scenario",
    "prompt": "--scenario",
    "text": "--scenario",
    "input_ids": "--scenario",
}


class ExtraBody(JsonObject):
    """A JSON object without fields that have an option of their own."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, Any]:
        """Text to dict; a field that another option sets is wrong usage."""
        found = super().convert(value, param, ctx)
        sampling = found.get("sampling_params", {})
        if not isinstance(sampling, dict):
            self.fail("sampling_params has to be an object", param, ctx)
        for name in (*found, *sampling):
            if name == "stream":
                self.fail(
                    "'stream' cannot be set: every answer is measured as a stream", param, ctx
                )
            if name in _OPTIONS:
                self.fail(f"{name!r} has an option of its own: {_OPTIONS[name]}", param, ctx)
        return found
