"""What a server runs with, by its own report: endpoints and log put together."""

from pathlib import Path

import msgspec

from bench_client.records import Memory, Server
from bench_client.run.server_facts import ControlPlane
from bench_client.run.server_facts import ServerFacts as Identity
from server_launchers import facts, hub, memory, transformers_log

# A server says all of this while it starts.
_LOG_BYTES = 4 * 2**20


def with_report(server: Server, identity: Identity, control: ControlPlane, log: Path) -> Server:
    """The record of a server with its own report in it, and where that is not what was asked."""
    text = _head(log)
    if "speculative_algorithm" in identity.info:  # SGLang, and the servers of our own
        reports = [facts.from_sglang_info(identity.info), facts.from_sglang_log(text)]
        spent = [memory.from_sglang_log(text), memory.from_sglang_info(identity.info)]
        if identity.dialect == "eagle":
            spent = [memory.from_eagle_info(identity.info)]
    elif identity.dialect == "transformers":
        reports, spent = [transformers_log.from_transformers_log(text)], []
    else:
        metrics = control.text("/metrics") or ""
        reports = [facts.from_vllm_log(text), facts.from_vllm_metrics(metrics)]
        spent = [memory.from_vllm_log(text)]
    if identity.dialect != "transformers":  # whose list is that of the download cache
        reports.append(facts.from_models(control.json("/v1/models")))
    launched = bool(server.argv)
    models = (server.model, server.draft_model) if launched else (None, None)
    found = hub.with_commits(facts.merge(*reports), *models)
    return msgspec.structs.replace(
        server,
        engine=server.engine or identity.engine,
        engine_version=identity.version or found.engine_version,
        model=server.model or found.model or next(iter(identity.models), None),
        simulated=server.simulated or identity.simulated,
        speculative=found.speculative,
        facts=msgspec.to_builtins(found),
        memory=memory.merge(*spent, Memory(kv_cache_tokens=found.kv_tokens)),
        unmet=facts.unmet(server.speculative_asked, found) if launched else (),
    )


def _head(log: Path) -> str:
    if not log.is_file():
        return ""
    with log.open("rb") as file:
        return file.read(_LOG_BYTES).decode("utf-8", "replace")
