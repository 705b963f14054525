"""Memory and energy, as the three reports show them."""

from typing import Any

from msgspec.structs import replace

from bench_client.measure.figures import Comparison, Ratio, Summary
from bench_client.records import Memory, Run
from bench_client.report import html, markdown, resources, terminal
from bench_client.report.arms import Report, make_report

from . import samples
from .test_terminal import rendered

SGLANG = Memory(
    weights_gib=15.28,
    draft_weights_gib=2.23,
    kv_cache_gib=64.16,
    kv_cache_tokens=467169,
    draft_kv_cache_gib=1.78,
    cuda_graphs_gib=3.88,
)
VLLM = Memory(weights_gib=16.01, draft_in_weights=True, kv_cache_gib=65.77, activations_gib=1.44)


def gpu(watts: float, per_token: float, **state: Any) -> dict[str, Any]:
    energy = {
        "j": per_token * 1000,
        "mean_power_w": watts,
        "j_per_output_token": per_token,
        "output_tok_per_j": 1 / per_token,
        "source": "counter",
        "gpus": ["0"],
    }
    return {"gpu": {"0": state, "energy": energy}}


def arm(
    found: tuple[Run, Summary], memory: Memory | None, telemetry: dict[str, Any]
) -> tuple[Run, Summary]:
    """`found` with what its server took, on a GPU that NVML knows the server to be on."""
    run, summary = found
    server = replace(run.header.server, memory=memory)
    row = {"at_unix_ns": 1, "gpu": {"0": {"server_processes": 1}}}
    run = replace(run, header=replace(run.header, server=server), telemetry=(row,))
    return run, replace(summary, telemetry=telemetry)


def compared(against: Comparison | None = None) -> Report:
    against = against or samples.comparison()
    energy = Ratio(
        figure="j_per_output_token",
        ratio=0.62,
        ci95=None,
        paired=False,
        n=(1, 1),
        baseline_mean=7.42,
        other_mean=4.6,
    )
    ratios = against.ratios and {**against.ratios, "j_per_output_token": energy}
    state = {
        "sm_clock_mhz": {"mean": 1755.4, "min": 1410, "max": 1980},
        "throttled": {"share": 0.4, "reasons": {"sw_power_cap": 0.4, "sw_thermal_slowdown": 0.05}},
        "other_processes": ["python3 4242"],
    }
    plain = arm(samples.sglang(), VLLM, gpu(312.4, 7.42, throttled={"share": 0.0, "reasons": {}}))
    eagle = arm(samples.eagle3(), SGLANG, gpu(280.0, 4.6, **state))
    return make_report([plain, eagle], [replace(against, ratios=ratios)])


def row(text: str, table: str, name: str) -> list[str]:
    """The cells of `name` in the Markdown table under the heading `table`."""
    lines = text.partition(f"### {table}")[2].strip().splitlines()
    line = next(line for line in lines if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_memory_side_by_side() -> None:
    text = markdown.report(compared())
    assert text.count(resources.MEMORY) == 1
    assert row(text, resources.MEMORY, "arm") == [
        *("arm", "weights (GiB)", "draft weights (GiB)", "KV cache (GiB)", "KV cache (tokens)"),
        *("draft KV cache (GiB)", "CUDA graphs (GiB)", "activations (GiB)"),
    ]
    assert row(text, resources.MEMORY, "sglang") == [
        *("sglang", "16.01", "in weights", "65.77", "-", "-", "-", "1.44")
    ]
    assert row(text, resources.MEMORY, "sglang-eagle3") == [
        *("sglang-eagle3", "15.28", "2.23", "64.16", "467,169", "1.78", "3.88", "-")
    ]


def test_energy_side_by_side() -> None:
    text = markdown.report(compared())
    assert row(text, resources.ENERGY, "sglang") == [
        *("sglang", "7.42", "baseline", "0.135", "312", "-", "0.0%")
    ]
    assert row(text, resources.ENERGY, "sglang-eagle3") == [
        *("sglang-eagle3", "4.60", "0.62x", "0.217", "280", "1,755", "40%")
    ]
    assert "| energy | J/output token | 1, 1 | 7.42 | 4.60 | 0.62x | - | - |" in text


def test_a_refused_comparison_has_no_ratio_of_energies() -> None:
    refused = replace(samples.comparison(), refused="the models differ: A and B", ratios={})
    text = markdown.report(compared(refused))
    assert row(text, resources.ENERGY, "sglang-eagle3")[:3] == ["sglang-eagle3", "4.60", "0.217"]


def test_one_arm_in_words() -> None:
    found = compared()
    shown = " ".join(rendered(terminal.arm(found.arms[1])).split())
    assert (
        "memory weights 15.28 GiB, draft weights 2.23 GiB, KV cache 64.16 GiB for 467,169 tokens, "
        "draft KV cache 1.78 GiB, CUDA graphs 3.88 GiB"
    ) in shown
    assert (
        "energy 4.60 J/output token (0.217 tok/J), 280 W on average, by the energy counter of GPU 0"
    ) in shown
    assert (
        "GPU 0 SM clock 1,755 MHz (1,410 to 1,980), throttled in 40% of the samples "
        "(sw power cap 40%, sw thermal slowdown 5.0%), shared with python3 4242"
    ) in shown
    plain = " ".join(rendered(terminal.arm(found.arms[0])).split())
    assert "memory weights 16.01 GiB for target and draft, KV cache 65.77 GiB" in plain
    assert "GPU 0 never throttled" in plain


def test_where_the_tables_stand() -> None:
    found = compared()
    lone = make_report([(found.arms[1].run, found.arms[1].summary)])
    for report in (found, lone):
        page = html.report(report)
        for title in (resources.MEMORY, resources.ENERGY):
            assert page.count(f"<h3>{title.replace(chr(39), '&#x27;')}</h3>") == 1
            assert markdown.report(report).count(f"### {title}") == 1
    shown = rendered(terminal.comparison(found))
    assert resources.MEMORY in shown
    assert max(map(len, shown.splitlines())) <= terminal.WIDTH


def test_a_process_named_to_deceive_stays_text() -> None:
    state = {"other_processes": ["<img src=x> 7"]}
    found = arm(samples.sglang(), None, gpu(300, 5, **state))
    assert "<img" not in html.report(make_report([found]))


def test_nothing_known_is_not_shown() -> None:
    report = make_report([samples.sglang(), samples.eagle3()], [samples.comparison()])
    assert list(resources.side_by_side(report)) == []
    assert list(resources.lines(report.arms[0])) == []
    tokens = arm(samples.sglang(), Memory(kv_cache_tokens=16384), {})
    assert list(resources.lines(make_report([tokens]).arms[0])) == [
        ("memory", "KV cache 16,384 tokens")
    ]
