import pytest

from bench_client.imports.notes import import_text
from bench_client.records import Load
from tests.imports.fixtures import FIXTURES, imported, runs, text

SGLANG_FORMS = {
    "0.4.4": "0.4.4",
    "0.4.9": "0.4.9 to 0.5.3",
    "0.5.3": "0.4.9 to 0.5.3",
    "0.5.5": "0.5.5",
    "0.5.6": "0.5.6",
    "0.5.8": "0.5.8 to 0.5.13",
    "0.5.10": "0.5.8 to 0.5.13",
    "0.5.13": "0.5.8 to 0.5.13",
    "0.5.23": "0.5.23",
}


def figure_lines(block: str) -> int:
    """Lines with a number, the settings left out."""
    lines = [line.split() for line in block.splitlines() if ":" in line]
    words = ("Backend:", "Traffic", "Max re")
    return sum(not " ".join(line).startswith(words) for line in lines)


@pytest.mark.parametrize("spec", ["spec", "nospec"])
@pytest.mark.parametrize("version", SGLANG_FORMS)
def test_every_line_of_every_sglang_version_is_read(version: str, spec: str) -> None:
    name = f"golden/sglang_{version}_{spec}.txt"
    [run] = runs(name)
    found = imported(run)
    assert found.version == SGLANG_FORMS[version]
    own = {"concurrency.decoding_mean"}
    assert len(found.figures.keys() - own) == figure_lines(text(name))
    assert None not in found.figures.values()
    assert ("speculation.accept_length" in found.figures) == (spec == "spec")
    assert run.header.plan.load == Load(kind="open")
    assert run.header.plan.api == "generate"


def test_percentiles_go_to_their_own_names() -> None:
    [run] = runs("golden/sglang_0.5.23_spec.txt")
    figures = imported(run).figures
    assert figures["ttft_ms.p99"] == 197118.52
    assert figures["itl_ms.p95"] == 293.54
    assert figures["itl_ms.max"] == 3256.63
    assert figures["peak_output_events_per_s"] == 1234
    assert figures["e2e_ms.p50"] == 116933.77


def test_vllm_block_with_everything() -> None:
    [run] = runs("golden/vllm_0.32_spec_c2_rps_goodput.txt")
    figures = imported(run).figures
    expected = {
        "requests.failed": 0,
        "goodput_request_per_s": 0.5,
        "chunk_gap_ms.mean": 109.55,
        "e2e_ms.p99": 123.45,
        "queue_ms.p50": 300,
        "e2e_from_schedule_ms.mean": 1500,
        "speculation.accept_length": 2.8,
        "speculation.draft_acceptance_pct": 56,
        "speculation.verify_steps": 32503,
        "speculation.draft_tokens": 104480,
        "speculation.accepted_tokens": 58506,
        "speculation.per_position_pct.0": 80,
        "speculation.per_position_pct.2": 40,
    }
    assert {name: figures.get(name) for name in expected} == expected
    assert run.header.plan.load == Load(kind="open", request_rate=4.0, max_concurrency=2)
    # vLLM's ITL is one value an event, so it is no ITL here.
    assert not any(name.startswith("itl_ms") for name in figures)


def test_vllm_at_an_infinite_rate_under_a_cap_is_a_closed_loop() -> None:
    [run] = runs("golden/vllm_0.32_spec_c2.txt")
    assert run.header.plan.load == Load(kind="closed", concurrency=2)
    assert (run.header.server.engine, run.header.server.name) == ("vllm", "vllm-speculative")


def test_all_blocks_in_one_text() -> None:
    files = sorted((FIXTURES / "golden").glob("*.txt"))
    together = "\n$ again\n".join(file.read_text(encoding="utf-8") for file in files)
    assert len(import_text(together, "all")) == len(files) == 21


def test_blocks_back_to_back_without_headers_or_ends() -> None:
    block = text("golden/sglang_0.5.3_spec.txt")
    bare = "".join(line for line in block.splitlines(keepends=True) if "=" not in line)
    first, second = import_text(bare + bare.replace("260.11", "99.00"), "n")
    assert imported(first).figures["duration_s"] == 260.11
    assert imported(second).figures["duration_s"] == 99


def test_any_spacing_and_blank_lines() -> None:
    block = text("golden/sglang_0.5.6_spec.txt")
    retyped = "\r\n\r\n".join("  " + " ".join(line.split()) for line in block.splitlines())
    [run] = import_text(retyped, "n")
    [original] = import_text(block, "n")
    assert imported(run).figures == imported(original).figures


def test_unknown_lines_of_a_later_version_do_not_end_a_block() -> None:
    block = text("golden/sglang_0.5.23_spec.txt")
    later = block.replace("Concurrency: ", "Mean something new (ms):    12.3\nConcurrency: ")
    [run] = import_text(later, "n")
    assert imported(run).figures["itl_ms.max"] == 3256.63


def test_goodput_and_cache_sections() -> None:
    block = text("golden/sglang_0.5.23_spec.txt").replace(
        "----------------End-to-End Latency",
        "---------------------Goodput----------------------\n"
        "SLOs (ms):                               ttft:500 tpot:50\n"
        "Request goodput (req/s):                 1.25      \n"
        "SLO attainment (%):                      65.00     \n"
        "TTFT SLO attainment (%):                 70.00     \n"
        "----------------End-to-End Latency",
    )
    block = block.rstrip().rstrip("=") + (
        "----------------Cache Hit Details-----------------\n"
        "Total cached tokens:                     1000      \n"
        "Cache hit rate:                          12.5%\n" + "=" * 50
    )
    [run] = import_text(block, "n")
    figures = imported(run).figures
    assert figures["goodput_request_per_s"] == 1.25
    assert figures["slo_attainment_pct"] == 65
    assert figures["cache.hit_pct"] == 12.5


def test_itl_of_a_backend_that_counts_events_is_a_chunk_gap() -> None:
    block = text("golden/sglang_0.5.23_nospec.txt").replace("sglang    ", "vllm-chat ")
    [run] = import_text(block, "n")
    assert "chunk_gap_ms.mean" in imported(run).figures
    assert "itl_ms.mean" not in imported(run).figures
    assert run.header.server.engine == "vllm"
    assert "requested length" in imported(run).definitions["output_tokens"]


@pytest.mark.parametrize(
    ("version", "spec", "name"),
    [
        ("0.5.23", "spec", "itl_ms.mean"),  # divided by retokenized counts
        ("0.5.23", "nospec", "chunk_gap_ms.mean"),
        ("0.5.3", "spec", "chunk_gap_ms.mean"),  # not yet divided
    ],
)
def test_itl_of_the_sglang_oai_backend(version: str, spec: str, name: str) -> None:
    block = text(f"golden/sglang_{version}_{spec}.txt")
    [run] = import_text(block.replace("sglang    ", "sglang-oai"), "n")
    assert name in imported(run).figures


def test_figures_that_do_not_agree_are_told() -> None:
    block = text("golden/sglang_0.5.3_spec.txt").replace("222.31", "333.31")
    [run] = import_text(block, "n")
    assert any("333.31 does not agree" in finding for finding in imported(run).findings)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("inf       ", "1.92      "),  # a rate
        ("not set   ", "48        "),  # the client's own cap
        ("95819.59 ", "3000.00  "),  # most of the latency is decoding
        ("500       ", "40        "),  # fewer requests than the cap
    ],
)
def test_no_cap_is_claimed_where_something_else_explains_it(old: str, new: str) -> None:
    block = text("golden/sglang_0.5.3_spec.txt")
    assert old in block
    [run] = import_text(block.replace(old, new), "n")
    assert not any("capped" in finding for finding in imported(run).findings)


@pytest.mark.parametrize("heading", ["Results:", "## sglang", "without EAGLE"])
def test_a_heading_without_a_method_hides_no_speculation(heading: str) -> None:
    [spec] = import_text(f"{heading}\n{text('golden/sglang_0.5.23_spec.txt')}", "n")
    [plain] = import_text(f"{heading}\n{text('golden/sglang_0.5.23_nospec.txt')}", "n")
    assert [run.header.server.name for run in (spec, plain)] == ["sglang-speculative", "sglang"]
    assert imported(spec).label == heading.strip("#: ")
