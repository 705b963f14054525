"""The embedded simulated engine: no GPU, no model."""

import sys

from .settings import LaunchCommand, LaunchSettings
from .urls import root


def command(s: LaunchSettings) -> LaunchCommand:
    """`python -m bench_client.sim`, by the Python that runs this client."""
    served = s.served_model_name or s.model
    argv = [s.engine_python or sys.executable, "-m", "bench_client.sim"]
    argv += ["--host", s.host, "--port", str(s.port), "--model", served]
    if s.draft_model:
        argv += ["--draft-model", s.draft_model]
    return LaunchCommand(
        name=s.name,
        engine="sim",
        argv=(*argv, *s.extra_args),
        env=s.env,
        url=root(s.host, s.port),
        model=s.model,
        draft_model=s.draft_model,
        served_model_name=served,
        speculative_asked={"draft_model": s.draft_model} if s.draft_model else None,
        simulated=True,
        ready_timeout_s=30.0,
    )
