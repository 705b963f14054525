"""`--transport httpx` and `--transport openai`: what an application sees; user-space stamps."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any

import httpx
import msgspec

from bench_client.wire.application import Application, Reads, library_reason
from bench_client.wire.endpoint import Endpoint
from bench_client.wire.httpcore_stamps import last_read_ns, stamp_reads
from bench_client.wire.proxy import is_local
from bench_client.wire.raw import RawResponse
from bench_client.wire.transport import Limits, OutgoingRequest

# What the SDK knows as an argument; the rest of a body travels as extra_body.
_ARGUMENTS = (
    *("model", "messages", "prompt", "max_tokens", "temperature"),
    *("seed", "stream", "stream_options"),
)


class HttpxTransport(Application):
    """httpx's streaming client, stamped in httpcore's network backend. Honours proxy variables."""

    name = "httpx"

    def __init__(
        self,
        endpoint: Endpoint,
        headers: Mapping[str, str],
        limits: Limits,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(limits)
        self._client = httpx.AsyncClient(
            base_url=endpoint.url,
            headers=dict(headers) | {"Content-Type": "application/json"},
            timeout=httpx.Timeout(None, connect=limits.connect_s),
            limits=httpx.Limits(max_connections=None),
            verify=tls or True,
            trust_env=not is_local(endpoint),
        )
        stamp_reads(self._client)

    async def open(self, connections: int) -> None:
        """As many requests at once leave as many kept-alive connections."""
        self.connect_ms.append(await _at_once(connections, self._models, httpx.TransportError))

    async def _models(self) -> httpx.Response:
        return await self._client.get("/v1/models")

    async def _reads(self, request: OutgoingRequest, response: RawResponse) -> Reads:
        headers = {"X-Request-Id": request.id}
        async with self._client.stream(
            "POST", request.path, content=request.body, headers=headers
        ) as answer:
            response.status = answer.status_code
            response.headers = dict(answer.headers)
            body: Any = answer.aiter_bytes()  # a generator, though declared an iterator
            async with aclosing(body) as pieces:
                async for data in pieces:
                    yield last_read_ns(answer), data

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()


class OpenAITransport(Application):
    """The official SDK; each chunk stamped when the SDK hands it over, as an application would."""

    name = "openai"

    def __init__(
        self,
        endpoint: Endpoint,
        headers: Mapping[str, str],
        limits: Limits,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        import openai  # noqa: PLC0415 (an extra)

        super().__init__(limits)
        key = httpx.Headers(headers).get("Authorization", "").removeprefix("Bearer ")
        self._client = openai.AsyncOpenAI(
            base_url=f"{endpoint.url}/v1",
            api_key=key or "none",
            default_headers=dict(headers),
            max_retries=0,
            timeout=openai.Timeout(None, connect=limits.connect_s),
            http_client=openai.DefaultAsyncHttpxClient(
                verify=tls or True, trust_env=not is_local(endpoint)
            ),
        )
        self._status_error = openai.APIStatusError
        self._connection_error = openai.APIConnectionError

    async def open(self, connections: int) -> None:
        """As many requests at once leave as many kept-alive connections."""
        self.connect_ms.append(await _at_once(connections, self._models, self._connection_error))

    async def _models(self) -> None:
        with suppress(self._status_error):  # an answer too, and the connection stays
            await self._client.models.list()

    async def _reads(self, request: OutgoingRequest, response: RawResponse) -> Reads:
        body = msgspec.json.decode(request.body, type=dict[str, Any])
        known = {key: body.pop(key) for key in _ARGUMENTS if key in body}
        chat = request.path.endswith("/chat/completions")
        create = self._client.chat.completions.create if chat else self._client.completions.create
        headers = {"X-Request-Id": request.id}
        try:
            stream = await create(**known, extra_body=body, extra_headers=headers)
        except self._status_error as error:
            response.status = error.status_code
            response.headers = dict(error.response.headers)
            yield time.time_ns(), error.response.content
            return
        response.status = stream.response.status_code
        response.headers = dict(stream.response.headers)
        async with stream:
            if not response.is_stream:  # the SDK would make an empty answer of it
                async for data in stream.response.aiter_bytes():
                    yield time.time_ns(), data
                return
            async for chunk in stream:
                at_ns = time.time_ns()
                data = chunk.to_json(indent=None, exclude_unset=True)
                yield at_ns, b"data: %b\n\n" % data.encode()
        yield time.time_ns(), b"data: [DONE]\n\n"  # the SDK keeps it to itself

    async def close(self) -> None:
        """Close every connection."""
        await self._client.close()


async def _at_once(
    count: int, get: Callable[[], Awaitable[object]], unreachable: type[Exception]
) -> float:
    """`count` requests together; the milliseconds that they took."""

    async def one() -> None:
        try:
            await get()
        except unreachable as error:
            raise ConnectionError(library_reason(error)) from error

    began = time.monotonic()
    await asyncio.gather(*(one() for _ in range(count)))
    return (time.monotonic() - began) * 1e3
