"""Hugging Face's own server, `transformers serve`: plain decoding."""

from .flags import at_least, option
from .presets import EngineError, SettingsError
from .settings import LaunchCommand, LaunchSettings
from .urls import root


def command(s: LaunchSettings) -> LaunchCommand:
    """Settings -> `transformers serve`, 5.5 or later. It has no context length.

    Raises SettingsError for EAGLE3, which it lacks, and EngineError for older versions: they took
    the model by --force-model and never said how many tokens they had streamed.
    """
    if s.speculative:
        raise SettingsError(
            f"server {s.name}: transformers serve has no EAGLE3: use engine eagle"
            " (--server transformers-eagle3)"
        )
    if not at_least(s.engine_version, (5, 5)):
        raise EngineError(
            f"server {s.name}: `transformers serve` of transformers {s.engine_version} streams no"
            " token counts: 5.5 or later is needed"
        )
    argv = [s.engine_python or "python3", "-m", "transformers.cli.transformers", "serve", s.model]
    argv += ["--host", s.host, "--port", str(s.port)]
    argv += option("--dtype", s.dtype)
    argv += option("--default-seed", s.seed)
    argv += ["--log-level", "info"]  # logs what it loads; two more lines a request
    if (s.concurrency or 1) > 1:
        argv += ["--continuous-batching"]  # without it requests run one after another
        argv += option("--cb-max-memory-percent", s.memory_fraction)  # a fraction in spite of that
    return LaunchCommand(
        name=s.name,
        engine="transformers",
        argv=(*argv, *s.extra_args),
        env=s.env,
        url=root(s.host, s.port),
        model=s.model,
        draft_model=None,
        served_model_name=s.model,  # it answers to no other name
        engine_version=s.engine_version,
        # /v1/models lists the download cache; the server listens only once the model is loaded.
        ready_path="/health",
    )
