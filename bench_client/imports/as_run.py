"""An import's parts put together as a `Run`. What the other tool did not say is null."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from bench_client import __version__
from bench_client.records import (
    FORMAT,
    Accept,
    Api,
    Client,
    Events,
    Failure,
    Imported,
    Load,
    Plan,
    RequestRecord,
    Run,
    RunHeader,
    Sampling,
    Server,
    TokenCountSource,
)

Figures = Mapping[str, float | None]


class Source(Struct, frozen=True, kw_only=True):
    """Where in the reader's world a run comes from: file, heading, and the system they name.

    `method` is the speculation that the heading names, e.g. EAGLE3.
    """

    file: str | None = None
    label: str | None = None
    server: str | None = None
    method: str | None = None


class Told(Struct, frozen=True, kw_only=True):
    """What a tool's output says of a run besides its figures. `began` is Unix time in seconds."""

    tool: str
    version: str | None = None
    engine: str | None = None
    model: str | None = None
    api: Api = "chat"
    load: Load = Load(kind="closed")
    started_at: str = ""
    began: float = 0.0
    seconds: float | None = None
    definitions: dict[str, str] = {}
    samples: dict[str, tuple[float, ...]] = {}


class Request(Struct, frozen=True, kw_only=True):
    """One request of another tool, in seconds since its run began; null is unknown.

    `end` is when its last token came, `gaps` the times between its events, `gap_tokens` the tokens
    that the later event of each gap carried.
    """

    start: float = 0.0
    arrival: float | None = None
    first: float | None = None
    end: float | None = None
    done: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    count_source: TokenCountSource | None = None
    gaps: Sequence[float] | None = None
    gap_tokens: Sequence[int] | None = None
    accept: Accept | None = None
    error: str = ""
    text: str | None = None


def _ns(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1e9)


def _events(request: Request) -> Events:
    """Arrivals of the events; the first one's tokens are what the others leave of the output."""
    if request.first is None or request.gaps is None:
        return Events()
    at = [request.first]
    for gap in request.gaps:
        at.append(at[-1] + gap)
    tokens: list[int | None] = [None] * len(at)
    if request.gap_tokens is not None and request.output_tokens is not None:
        tokens = [max(request.output_tokens - sum(request.gap_tokens), 0), *request.gap_tokens]
    return Events(at_ns=tuple(round(1e9 * instant) for instant in at), tokens=tuple(tokens))


def _failed(request: Request) -> Request:
    """A failed request keeps its start and input alone: tools write zeros for the rest."""
    return Request(
        start=request.start,
        arrival=request.arrival,
        done=request.done,
        input_tokens=request.input_tokens,
        error=request.error,
    )


def record(index: int, request: Request) -> RequestRecord:
    """The request as this program records its own. Its prompt's hash is unknown, hence empty."""
    request = _failed(request) if request.error else request
    end = _ns(request.end)
    error = request.error.strip().splitlines()[-1:]
    return RequestRecord(
        id=f"{index}",
        prompt_index=index,
        prompt_sha256="",
        repeat=0,
        scheduled_ns=round(1e9 * (request.start if request.arrival is None else request.arrival)),
        sent_ns=_ns(request.start),
        first_token_ns=_ns(request.first),
        last_token_ns=end,
        done_ns=end if request.done is None else _ns(request.done),
        outcome="failed" if request.error else "ok",
        failure=Failure("reported", *error) if error else None,
        finish_reason=None,
        input_tokens=request.input_tokens,
        output_tokens=request.output_tokens,
        token_count_source=None if request.output_tokens is None else request.count_source,
        stamps="user",
        events=_events(request),
        reads=0,
        accept=request.accept,
        output_sha256=None,
        output_text=request.text,
    )


def name_of(told: Told, figures: Figures, source: Source) -> str:
    """Of a system: as its heading has it; marked where only the figures say that it speculates."""
    name = source.server or told.engine or told.tool
    marked = figures.get("speculation.accept_length") and not source.method
    return f"{name}-speculative" if marked else name


def run_of(
    told: Told,
    source: Source,
    figures: Figures,
    requests: Sequence[Request] = (),
    findings: tuple[str, ...] = (),
) -> Run:
    """A run that another tool made. `Plan.sampling` cannot be null: it says nothing here."""
    header = RunHeader(
        format=FORMAT,
        bench_client_version=__version__,
        started_at=told.started_at,
        began_unix_ns=round(told.began * 1e9),
        argv=(),
        plan=Plan(
            scenario="imported",
            seed=0,
            repeats=1,
            load=told.load,
            sampling=Sampling(),
            requests=(),
            api=told.api,
        ),
        server=Server(
            name=name_of(told, figures, source),
            url="",
            engine=told.engine,
            model=told.model,
        ),
        environment={},
        client=Client(python="", transport=told.tool),
        duration_ns=_ns(told.seconds),
        imported=Imported(
            tool=told.tool,
            version=told.version,
            file=source.file,
            label=source.label,
            samples=told.samples,
            figures=dict(figures),
            definitions=told.definitions,
            findings=findings,
        ),
    )
    return Run(header=header, records=tuple(record(i, r) for i, r in enumerate(requests)))
