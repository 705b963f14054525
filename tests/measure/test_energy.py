"""Energy from telemetry rows whose GPUs draw a known power, and how GPUs were held back."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from bench_client.measure.compare import compare
from bench_client.measure.energy import gpu_energy, serving_gpus, unix_windows
from bench_client.measure.summary import summarize
from bench_client.records import Run
from tests.measure.runs import answer, run

S = 10**9
BEGAN = 1_796_000_000 * S
Row = dict[str, Any]
Power = Callable[[float], float]


def steady(watts: float) -> Power:
    return lambda _: watts


def row(at: float, mark: str | None = None, **gpus: Row) -> Row:
    """A sample `at` seconds after the run began."""
    marked = {"mark": mark} if mark else {}
    return {
        "at_unix_ns": BEGAN + round(at * S),
        "gpu": {n[1:]: g for n, g in gpus.items()},
    } | marked


def gpu(at: float, power: Power, **more: Any) -> Row:
    """A GPU that drew `power` since 100 s before: its counter is the integral, in 0.1 ms steps."""
    steps = 1000
    width = (at + 100) / steps
    joules = sum(power(-100 + (i + 0.5) * width) * width for i in range(steps))
    return {"energy_j": 5e6 + joules, "power_w": power(at), "server_processes": 1, **more}


def sampled(power: Power, end: float, **more: Any) -> tuple[Row, ...]:
    """Marks just outside 0 and `end`, a sample each second between."""
    ticks = [(t + 0.37, None) for t in range(int(end))]
    marks = [(-0.002, "begin"), *ticks, (end + 0.003, "end")]
    return tuple(row(at, mark, g0=gpu(at, power, **more)) for at, mark in marks)


def measured(rows: Sequence[Row], *, seconds: float = 10, tokens: int = 501, **changes: Any) -> Run:
    """One answer of `tokens` that took `seconds`, sent as the run began."""
    gap = (seconds * 1e3 - 50) / (tokens - 1)
    records = [answer(gaps=[gap] * (tokens - 1))]
    return run(records, telemetry=tuple(rows), began_unix_ns=BEGAN, **changes)


def test_a_steady_gpu() -> None:
    found = gpu_energy(measured(sampled(steady(300), 10)), 501)
    assert found
    assert found.j == pytest.approx(3000, rel=1e-6)
    assert found.mean_power_w == pytest.approx(300, rel=1e-6)
    assert found.j_per_output_token == pytest.approx(3000 / 501, rel=1e-6)
    assert found.output_tok_per_j == pytest.approx(501 / 3000, rel=1e-6)
    assert (found.source, found.gpus) == ("counter", ("0",))


def test_only_the_window_counts() -> None:
    """The GPU draws ten times as much while the server warms up and after the last answer."""

    def power(at: float) -> float:
        return 200.0 if 0 <= at <= 10 else 2000.0

    early = [row(-3 + i, g0=gpu(-3 + i, power)) for i in range(3)]
    late = [row(11.0 + i, g0=gpu(11.0 + i, power)) for i in range(3)]
    found = gpu_energy(measured([*early, *sampled(power, 10), *late]), None)
    assert found
    # 2 ms before the window and 3 ms after it are interpolated.
    assert found.j == pytest.approx(2000, rel=0.01)
    assert (found.j_per_output_token, found.output_tok_per_j) == (None, None)


def test_power_is_integrated_where_there_is_no_counter() -> None:
    rows = sampled(lambda at: 100 + 20 * at, 10)
    for each in rows:
        del each["gpu"]["0"]["energy_j"]
    found = gpu_energy(measured(rows), 501)
    assert found
    assert found.source == "power"
    assert found.j == pytest.approx(100 * 10 + 20 * 10**2 / 2, rel=1e-6)


def test_a_counter_that_stands_still_is_none() -> None:
    found = gpu_energy(measured(sampled(steady(300), 10, energy_j=0.0)), 501)
    assert found
    assert (found.source, found.j) == ("power", pytest.approx(3000))


def test_the_gpus_of_the_server_add_up_and_no_others() -> None:
    """The third one is another's."""
    rows = []
    for each in sampled(steady(300), 10):
        at = (each["at_unix_ns"] - BEGAN) / S
        others = {"1": gpu(at, steady(150)), "2": gpu(at, steady(700), server_processes=0)}
        rows.append({**each, "gpu": {**each["gpu"], **others}})
    found = gpu_energy(measured(rows), 501)
    assert found
    assert found.gpus == ("0", "1")
    assert found.mean_power_w == pytest.approx(450)


def nameless(used: float) -> tuple[Row, ...]:
    return sampled(steady(300), 10, server_processes=0, memory_used_gib=used)


def test_a_gpu_whose_processes_nobody_names_serves_if_its_memory_grew() -> None:
    launched = {"server": {"argv": ("vllm",)}}
    before = {"environment": {"gpus": [{"memory_used_gib": 4.0}]}}
    assert serving_gpus(measured(nameless(20), **launched, **before)) == ("0",)
    assert serving_gpus(measured(nameless(4.5), **launched, **before)) == ()
    # Of a server that ran before, only that it holds memory is known.
    assert serving_gpus(measured(nameless(4.5), **before)) == ("0",)
    assert serving_gpus(measured(nameless(0.6))) == ()


def test_unknown_without_a_gpu_or_without_its_readings() -> None:
    assert gpu_energy(measured(()), 501) is None
    assert gpu_energy(measured([{"at_unix_ns": BEGAN, "machine": {}}]), 501) is None
    begun = sampled(steady(300), 10)[:-1]  # the end was never seen
    assert gpu_energy(measured(begun), 501) is None
    one = [row(5.0, g0=gpu(5.0, steady(300)))]
    assert gpu_energy(measured(one), 501) is None


def test_blocks_are_windows_of_their_own() -> None:
    """Between them another arm had the GPU, and drew more."""

    def power(at: float) -> float:
        return 900.0 if 10.5 < at < 99.5 else 200.0

    gap = (10_000 - 50) / 100
    records = [
        answer(0, gaps=[gap] * 100),
        answer(0, gaps=[gap] * 100, sent=100_000, repeat=1),
    ]
    again = [
        {**each, "at_unix_ns": each["at_unix_ns"] + 100 * S, "gpu": {"0": gpu(at + 100, power)}}
        for each in sampled(power, 10)
        for at in [(each["at_unix_ns"] - BEGAN) / S]
    ]
    whole = run(records, telemetry=(*sampled(power, 10), *again), began_unix_ns=BEGAN)
    assert [(end - begin) / S for begin, end in unix_windows(whole)] == [10, 10]
    found = gpu_energy(whole, 202)
    assert found
    assert found.j == pytest.approx(4000, rel=0.01)
    assert found.mean_power_w == pytest.approx(200, rel=0.01)


def test_summary_and_ratio() -> None:
    plain, eagle = (
        measured(sampled(steady(watts), seconds), seconds=seconds)
        for watts, seconds in ((300, 10), (400, 5))
    )
    energy = summarize(plain).telemetry["gpu"]["energy"]
    assert energy["j_per_output_token"] == pytest.approx(3000 / 501)
    ratio = compare(plain, eagle).ratios["j_per_output_token"]
    assert ratio.ratio == pytest.approx(2000 / 3000)
    assert (ratio.baseline_mean, ratio.other_mean) == (
        pytest.approx(3000 / 501),
        pytest.approx(2000 / 501),
    )
    assert ratio.ci95 is None
    assert "j_per_output_token" not in compare(plain, measured(())).ratios


def test_telemetry_is_of_the_window() -> None:
    hot = row(-5.0, g0={"sm_clock_mhz": 300, "throttle_reasons": 0x40})
    rows = [hot, *sampled(steady(300), 4, sm_clock_mhz=1500)]
    found = summarize(measured(rows, seconds=4)).telemetry["gpu"]["0"]
    assert found["sm_clock_mhz"] == {"mean": 1500, "min": 1500, "max": 1500}
    assert "throttled" not in found  # the window's samples do not say
    assert "energy_j" not in found


def test_a_run_shorter_than_a_sample_keeps_what_there_is() -> None:
    rows = [row(-0.4, g0={"sm_clock_mhz": 300}), row(0.6, g0={"sm_clock_mhz": 500})]
    found = summarize(measured(rows, seconds=0.2, tokens=5)).telemetry["gpu"]["0"]
    assert found["sm_clock_mhz"]["mean"] == 400


def test_what_held_the_clocks_back() -> None:
    masks = (0x1, 0x4, 0x4 | 0x20, 0x2)  # idle, power, power and heat, clocks set by the user
    rows = [row(i, g0={"throttle_reasons": mask}) for i, mask in enumerate(masks)]
    found = summarize(measured(rows, seconds=3.5)).telemetry["gpu"]["0"]
    assert found["throttled"] == {
        "share": 0.5,
        "reasons": {"sw_power_cap": 0.5, "sw_thermal_slowdown": 0.25},
    }
    assert "throttle_reasons" not in found


def test_others_on_the_gpu_are_named_where_the_server_is_known() -> None:
    def others(*names: str, server: int) -> Any:
        rows = [
            row(i, g0={"server_processes": server, "other_processes": names[: i + 1]})
            for i in range(3)
        ]
        return summarize(measured(rows, seconds=3)).telemetry["gpu"]["0"].get("other_processes")

    assert others("python3 7", "ollama 8", server=1) == ["ollama 8", "python3 7"]
    assert others(server=1) is None
    assert others("process 7", server=0) is None
