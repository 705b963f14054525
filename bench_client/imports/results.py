"""One JSON object that a tool wrote as runs, told by its keys."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench_client.imports import aiperf, guidellm, sglang_bench, vllm_bench
from bench_client.imports.as_run import Source
from bench_client.records import Run

READS = (
    "sglang.bench_serving and vllm bench serve results, SGLang and vLLM server logs, "
    "vLLM's offline progress bar, EAGLE's timing lines, AIPerf and GuideLLM JSON"
)

Entry = Mapping[str, Any]

# Tool -> (whether an object is its result, what runs it holds).
TOOLS: dict[str, tuple[Callable[[Entry], bool], Callable[[Entry, Source], Sequence[Run]]]] = {
    sglang_bench.TOOL: (sglang_bench.is_json, lambda e, source: [sglang_bench.json_run(e, source)]),
    vllm_bench.TOOL: (vllm_bench.is_json, lambda e, source: [vllm_bench.json_run(e, source)]),
    guidellm.TOOL: (guidellm.is_report, guidellm.report_runs),
    aiperf.TOOL: (aiperf.is_summary, lambda e, source: [aiperf.summary_run(e, source)]),
}

# What it measures, where that is one engine.
ENGINES = {sglang_bench.TOOL: "sglang", vllm_bench.TOOL: "vllm"}


def tool_of(entry: Entry) -> str | None:
    """Which tool wrote it; None for none that is known."""
    return next((tool for tool, (wrote, _) in TOOLS.items() if wrote(entry)), None)


def result_runs(entry: Entry, source: Source, where: str) -> Sequence[Run]:
    """The runs of a result. ValueError, in one line that begins with `where`, if it cannot be read:
    keys tell who wrote it, its shape shows only here.
    """
    tool = tool_of(entry)
    if tool is None:
        raise ValueError(f"{where}: JSON that no known tool writes; this reads {READS}")
    return of_shape(tool, where, lambda: TOOLS[tool][1](entry, source))


def of_shape(tool: str, where: str, read: Callable[[], Sequence[Run]]) -> Sequence[Run]:
    """What `read` makes of a result of that tool. ValueError as above."""
    try:
        return read()
    except KeyError as error:
        raise ValueError(f"{where}: no result of {tool} as known here: {error} missing") from error
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    except (TypeError, AttributeError, LookupError, ArithmeticError) as error:
        raise ValueError(f"{where}: no result of {tool} as known here: {error}") from error
