"""EAGLE's own implementation (EaModel on transformers) behind an OpenAI-compatible server."""

import sys
from pathlib import Path

from .flags import option
from .presets import SettingsError
from .settings import LaunchCommand, LaunchSettings, asked
from .urls import root

MODULE = "server_launchers.eagle_server"
PACKAGE_ROOT = str(Path(__file__).resolve().parent.parent)


def command(s: LaunchSettings) -> LaunchCommand:
    """Settings -> `python -m server_launchers.eagle_server`.

    EAGLE's depth is one less than `spec_steps`: its tree has depth + 1 levels below the root.
    Raises SettingsError for more than one request at a time.
    """
    if (s.concurrency or 1) > 1:
        raise SettingsError(
            f"server {s.name}: EAGLE's own code decodes one request at a time (its KV cache has"
            f" batch size 1), and {s.concurrency} are planned: use --concurrency 1 (in an open"
            " loop --max-concurrency 1), or SGLang or vLLM for more"
        )
    if s.simulate_accept_length is not None:
        raise SettingsError(f"server {s.name}: EAGLE's own code cannot simulate acceptance")
    served = s.served_model_name or s.model
    argv = [*_python(s), "--model", s.model, *option("--draft-model", s.draft_model)]
    argv += ["--host", s.host, "--port", str(s.port), "--served-model-name", served]
    argv += option("--dtype", s.dtype)
    argv += option("--max-length", s.context_length)
    argv += _tree(s) if s.speculative else ["--plain"]
    return LaunchCommand(
        name=s.name,
        engine="eagle",
        argv=(*argv, *s.extra_args),
        env=s.env,
        url=root(s.host, s.port),
        model=s.model,
        draft_model=s.draft_model,
        served_model_name=served,
        engine_version=s.engine_version,
        speculative_asked=asked(s),
    )


def _tree(s: LaunchSettings) -> list[str]:
    depth = None if s.spec_steps is None else s.spec_steps - 1
    return [
        *option("--total-token", s.spec_draft_tokens),
        *option("--depth", depth),
        *option("--top-k", s.spec_topk),
    ]


def _python(s: LaunchSettings) -> list[str]:
    """EAGLE lives in an environment of its own, which has to find our server too.

    The path goes to the end: this client's packages must not shadow the engine's.
    """
    python = s.engine_python or "python3"
    if python == sys.executable or s.engine_python is None:
        return [python, "-m", MODULE]
    boot = (
        f"import runpy, sys; sys.path.append({PACKAGE_ROOT!r}); "
        f"runpy.run_module({MODULE!r}, run_name='__main__', alter_sys=True)"
    )
    return [python, "-c", boot]
