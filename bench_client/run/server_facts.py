"""What a server says of itself, over its control endpoints. Never polled while measuring."""

from collections.abc import Mapping
from typing import Any

import httpx
from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from bench_client.run.lookups import beside
from bench_client.wire.endpoint import Endpoint
from bench_client.wire.payload import Dialect
from bench_client.wire.stream import one_line

# The counters that speculation, token counts and prefix-cache hits are derived from.
COUNTERS = (
    "vllm:spec_decode_num_drafts_total",
    "vllm:spec_decode_num_draft_tokens_total",
    "vllm:spec_decode_num_accepted_tokens_total",
    "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_total",
    "vllm:prefix_cache_hits_total",
    "vllm:prefix_cache_queries_total",
    "vllm:request_success_total",
    "sglang:generation_tokens_total",
    "sglang:prompt_tokens_total",
    "sglang:cached_tokens_total",
    "sglang:spec_verify_calls_total",
    "sglang:num_requests_total",
)
_OWNERS: dict[str, Dialect] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "bench-client-eagle": "eagle",
}
# Of 5.5 and later; others may have some of these.
_TRANSFORMERS_PATHS = {"/load_model", "/reset", "/v1/responses"}


class ServerError(Exception):
    """The server does not answer as a server should; one line that says what to do."""


class ServerFacts(Struct, frozen=True, kw_only=True):
    """Who answers: the models it names, the engine as far as it shows, and its own settings.

    `simulated` is whether it says that it is the embedded engine, whose dialect is a real one's.
    """

    models: tuple[str, ...]
    dialect: Dialect
    engine: str | None
    version: str | None
    info: dict[str, Any]
    simulated: bool = False


class ControlPlane:
    """The server's side endpoints, by httpx. Closes its client on exit."""

    def __init__(
        self,
        endpoint: Endpoint,
        headers: Mapping[str, str],
        *,
        verify: Any = True,
        trust_env: bool = False,
    ) -> None:
        self._endpoint = endpoint
        self._client = httpx.Client(
            base_url=endpoint.url,
            headers=dict(headers),
            timeout=10.0,
            verify=verify,
            trust_env=trust_env,
        )

    def __enter__(self) -> "ControlPlane":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def identify(self) -> ServerFacts:
        """Ask who is there.

        Raises:
            ServerError: nothing listens, or what listens is no OpenAI-compatible server.
        """
        try:
            models = self._models()
        except ServerError:
            if not self._is_transformers():
                raise
            models = []  # it lists the download cache, and fails where there is none
        release = self.json("/version")
        version = release.get("version")
        info = self.json("/server_info") or self.json("/get_server_info")
        owners = [str(model.get("owned_by", "")).lower() for model in models]
        dialect = next((_OWNERS[owner] for owner in owners if owner in _OWNERS), None)
        if dialect is None:
            dialect = self._unowned(info)
        if dialect == "sglang" or version is None:
            version = info.get("version") or version
        simulated = True in (release.get("simulated"), info.get("simulated"))
        named = "sim" if simulated else dialect
        return ServerFacts(
            models=tuple(str(model["id"]) for model in models),
            dialect=dialect,
            engine=None if named == "openai" else named,
            version=version,
            info=info,
            simulated=simulated,
        )

    def _models(self) -> list[dict[str, Any]]:
        url = self._endpoint.url
        try:
            # Where this fails, a server may close the connection a moment after its answer.
            close = {"connection": "close"}
            # A signal is to end the looking up of a name too.
            answer = beside(lambda: self._client.get("/v1/models", headers=close)).result()
        except httpx.HTTPError as error:
            raise ServerError(f"nothing answers at {url}: {error}; is the server up?") from error
        if answer.status_code in {401, 403}:
            raise ServerError(f"{url} wants an API key: name its variable by --api-key-env")
        if answer.has_redirect_location:
            location = one_line(answer.headers["location"])
            raise ServerError(f"{url} redirects to {location}: give the root there as --url")
        try:
            models = answer.raise_for_status().json()["data"]
            return [model for model in models if isinstance(model["id"], str)]
        except (httpx.HTTPStatusError, ValueError, KeyError, TypeError) as error:
            status = f"GET /v1/models gave {answer.status_code}"
            raise ServerError(f"no OpenAI-compatible server at {url}: {status}") from error

    def _unowned(self, info: dict[str, Any]) -> Dialect:
        if "internal_states" in info:
            return "sglang"
        return "transformers" if self._is_transformers() else "openai"

    def _is_transformers(self) -> bool:
        return set(self.json("/openapi.json").get("paths", ())) >= _TRANSFORMERS_PATHS

    def counters(self) -> dict[str, float] | None:
        """The counters of `/metrics`, summed over engine labels; null where there are none."""
        text = self.text("/metrics")
        if text is None:
            return None
        try:
            return parse_counters(text) or None
        except ValueError:
            return None

    def flush_caches(self, dialect: Dialect) -> bool | None:
        """Empty the prefix cache, so that no measured prompt is a hit. Null: no such endpoint."""
        path = {"vllm": "/reset_prefix_cache", "sglang": "/flush_cache"}.get(dialect)
        if path is None:
            return None
        try:
            answer = self._client.post(path)
        except httpx.HTTPError:
            return None
        if answer.status_code == 404:  # vLLM has it in development mode only
            return None
        # vLLM says {"success": false} with status 200.
        return answer.is_success and b'"success":false' not in answer.content.replace(b" ", b"")

    def text(self, path: str) -> str | None:
        """A body as text; null where there is none."""
        try:
            answer = self._client.get(path)
        except httpx.HTTPError:
            return None
        return answer.text if answer.is_success else None

    def json(self, path: str) -> dict[str, Any]:
        """A body as a JSON object; empty where there is none."""
        try:
            answer = self._client.get(path)
            found = answer.json() if answer.is_success else {}
        except (httpx.HTTPError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def parse_counters(text: str) -> dict[str, float]:
    """Prometheus text to `{name: value}`, or `name{position="0"}` where positions differ."""
    totals: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name not in COUNTERS:
                continue
            position = sample.labels.get("position")
            key = sample.name if position is None else f'{sample.name}{{position="{position}"}}'
            totals[key] = totals.get(key, 0.0) + sample.value
    return totals
