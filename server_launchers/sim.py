"""The embedded simulated engine: no GPU, no model."""

import sys

from .drafts import check_chain
from .flags import option
from .presets import SettingsError
from .settings import LaunchCommand, LaunchSettings, asked
from .urls import root


def command(s: LaunchSettings) -> LaunchCommand:
    """`python -m bench_client.sim`, by the Python that runs this client."""
    served = s.served_model_name or s.model
    argv = [s.engine_python or sys.executable, "-m", "bench_client.sim"]
    argv += ["--host", s.host, "--port", str(s.port), "--model", served]
    if s.simulate_accept_length is not None:
        raise SettingsError(
            f"server {s.name}: the embedded engine simulates acceptance as it is, by probability:"
            " --launch-arg=--accept-en --launch-arg=P, and --accept-zh"
        )
    if s.draft_model:
        check_chain(s, "the embedded engine")
        argv += ["--draft-model", s.draft_model, *option("--spec-steps", s.spec_steps)]
    return LaunchCommand(
        name=s.name,
        engine="sim",
        argv=(*argv, *s.extra_args),
        env=s.env,
        url=root(s.host, s.port),
        model=s.model,
        draft_model=s.draft_model,
        served_model_name=served,
        speculative_asked=asked(s),
        simulated=True,
        ready_timeout_s=30.0,
    )
