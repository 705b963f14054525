"""The server as a client meets it: answers, connections, side endpoints, its log."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bench_client.sim.__main__ import main

from .running import FAST, QUESTION, Running, chat, http_request, payloads, sim

ZH_QUESTION = "请解释服务器如何把请求合并成批次"


def text_of(events: list[Any]) -> str:
    deltas = [event["choices"][0]["delta"] for event in events if event["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


@pytest.mark.parametrize("question", [QUESTION, ZH_QUESTION])
def test_both_arms_say_the_same_in_pieces_or_whole(
    plain: Running, speculative: Running, question: str
) -> None:
    said = set()
    for running in (plain, speculative):
        said.add(text_of(running.events(chat(question, max_tokens=60))))
        status, body = running.call(
            "/v1/chat/completions", chat(question, max_tokens=60, stream=False)
        )
        assert status == 200
        answer = json.loads(body)
        assert answer["usage"]["completion_tokens"] == 60
        said.add(answer["choices"][0]["message"]["content"])
    assert len(said) == 1
    assert len(plain.events(chat(question, max_tokens=60))) == 61  # role and one each
    assert len(speculative.events(chat(question, max_tokens=60))) < 61


def test_the_answer_stops_by_itself(plain: Running) -> None:
    lengths = set()
    for i in range(3):
        body = {"text": f"Question {i}", "sampling_params": {"max_new_tokens": 5000}}
        meta = json.loads(plain.call("/generate", body)[1])["meta_info"]
        assert meta["finish_reason"]["type"] == "stop"
        assert 100 <= meta["completion_tokens"] <= 160
        lengths.add(meta["completion_tokens"])
    assert len(lengths) > 1


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/v1/chat/completions", {"messages": []}, 400, "messages"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": " "}]}, 400, "empty"),
        ("/v1/chat/completions", chat(max_tokens=0), 400, "max_tokens"),
        ("/v1/chat/completions", chat(max_tokens=40_000), 400, "context length"),
        ("/v1/chat/completions", chat(model="other"), 404, "does not exist"),
        ("/v1/chat/completions", chat(n=2), 400, "$.n"),
        ("/v1/chat/completions", chat(sim_fault="nonsense"), 400, "unknown fault"),
        ("/v1/completions", {"prompt": ["a", "b"]}, 400, "batch"),
        ("/generate", {}, 400, "input_ids"),
        ("/nowhere", None, 404, "Not Found"),
        ("/generate", None, 405, "POST"),
    ],
)
def test_bad_requests_get_one_line(
    plain: Running, path: str, body: dict[str, Any] | None, status: int, message: str
) -> None:
    got, content = plain.call(path, body)
    assert got == status
    assert message in content.decode()


def test_sglang_rejects_token_ids_in_a_chat_stream_and_any_model_name_will_do(
    sglang: Running,
) -> None:
    status, content = sglang.call("/v1/chat/completions", chat(return_token_ids=True))
    assert (status, json.loads(content)["object"]) == (400, "error")
    assert sglang.call("/v1/chat/completions", chat(model="other"))[0] == 200


def test_request_in_pieces_keep_alive_and_pipelining(plain: Running) -> None:
    long = chat(QUESTION + " and why" * 5000)
    with plain.connect() as sock:
        raw = http_request("/v1/chat/completions", long)
        for start in range(0, len(raw), 7000):
            sock.sendall(raw[start : start + 7000])
            time.sleep(0.001)
        sock.sendall(http_request("/v1/chat/completions", chat(), "x-request-id: second"))
        sock.sendall(http_request("/v1/models", None, "connection: close"))
        data = b""
        while piece := sock.recv(1 << 16):
            data += piece
    assert data.count(b"HTTP/1.1 200 OK") == 3
    assert data.count(b"data: [DONE]") == 2
    assert b'"id":"second"' in data.split(b"[DONE]")[1]
    assert data.endswith(b"}]}")


def test_bad_http_is_answered_and_closed(plain: Running) -> None:
    with plain.connect() as sock:
        sock.sendall(b"nonsense\r\n\r\n")
        data = b""
        while piece := sock.recv(4096):
            data += piece
    assert data.startswith(b"HTTP/1.1 400 ")


def test_side_endpoints(speculative: Running) -> None:
    for path in ("/health", "/version", "/model_info", "/get_model_info", "/ready"):
        assert speculative.call(path)[0] == 200
    models = json.loads(speculative.call("/v1/models")[1])
    assert [model["id"] for model in models["data"]] == ["sim"]
    for path in ("/flush_cache", "/reset_prefix_cache"):
        assert speculative.call(path, method="POST")[0] == 200
    info = json.loads(speculative.call("/server_info")[1])
    assert info == json.loads(speculative.call("/get_server_info")[1])
    assert info["simulated"] is True
    assert info["speculative_num_draft_tokens"] == 6
    assert info["max_running_requests"] == 48


def test_lifetime_accept_length_comes_with_the_log_lines_and_goes_with_a_flush(
    tmp_path: Path,
) -> None:
    with sim(tmp_path, *FAST, "--draft-model", "d", "--accept-en", "1") as running:

        def average() -> float | None:
            info = json.loads(running.call("/server_info")[1])
            found: float | None = info["internal_states"][0].get("avg_spec_accept_length")
            return found

        running.events(chat(max_tokens=100))  # 17 verify steps: no line yet
        assert average() is None
        running.events(chat(max_tokens=200, ignore_eos=True))
        assert average() == 6.0
        assert running.metrics()['sglang:spec_accept_length{model_name="sim"}'] == 6.0
        assert running.call("/flush_cache")[0] == 200
        assert average() is None
        lines = re.findall(r"Decode batch, .*", running.log.read_text())
    (line,) = lines
    assert re.fullmatch(
        r"Decode batch, #running-req: 1, #token: \d+, token usage: 0\.00, accept len: 6\.00, "
        r"accept rate: 1\.00, cuda graph: True, gen throughput \(token/s\): \d+\.\d\d, "
        r"#queue-req: 0",
        line,
    )


def test_log_tells_of_prefill_and_decode(plain: Running) -> None:
    plain.events(chat(max_tokens=90, ignore_eos=True))
    log = plain.log.read_text()
    stamp = r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] "
    assert re.search(stamp + "Prefill batch, #new-seq: 1, #new-token: 6, ", log, re.MULTILINE)
    decode = re.findall(stamp + r"Decode batch, #running-req: 1, (.*)", log, re.MULTILINE)
    assert decode
    assert "accept len" not in decode[-1]
    assert "server_args=ServerArgs(model_path='sim', " in log


def test_counters_move_by_what_was_done(speculative: Running) -> None:
    before = speculative.metrics()
    events = speculative.events(chat(max_tokens=50, stream_options={"include_usage": True}))
    told = events[-1]["metrics"]["speculative_decoding"]
    after = speculative.metrics()
    change = {name: after[name] - before[name] for name in after}
    vllm = 'vllm:{}{{engine="0",model_name="sim"}}'
    assert change[vllm.format("spec_decode_num_drafts_total")] == told["num_spec_steps"]
    assert change[vllm.format("spec_decode_num_draft_tokens_total")] == told["num_draft_tokens"]
    accepted = change[vllm.format("spec_decode_num_accepted_tokens_total")]
    assert accepted == told["num_accepted_draft_tokens"]
    per_position = [value for name, value in change.items() if "per_pos" in name]
    histogram = told["acceptance_histogram"]
    assert per_position == [sum(histogram[i + 1 :]) for i in range(5)]
    assert change[vllm.format("generation_tokens_total")] == 50
    assert change[vllm.format("prompt_tokens_total")] == 6
    assert change['sglang:generation_tokens_total{model_name="sim"}'] == 50
    assert change['sglang:spec_verify_calls_total{model_name="sim"}'] == told["num_spec_steps"]


def test_cap_and_a_client_that_leaves(tmp_path: Path) -> None:
    with sim(tmp_path, "--step-ms", "5", "--max-running-requests", "1") as running:
        raw = http_request("/v1/chat/completions", chat(max_tokens=30_000, ignore_eos=True))
        with running.connect() as first, running.connect() as second:
            first.sendall(raw)
            assert b"200 OK" in first.recv(4096)
            second.sendall(raw)
            running.wait_for('vllm:num_requests_waiting{engine="0",model_name="sim"}', 1)
            assert running.metrics()['sglang:num_running_reqs{model_name="sim"}'] == 1
            assert running.call("/flush_cache")[0] == 400
            first.close()
            head = b""
            while b'"content":" ' not in head:  # its turn has come
                head += second.recv(4096)
        running.wait_for('sglang:num_running_reqs{model_name="sim"}', 0)


def test_prefix_cache_is_told_of_in_usage_and_counters(tmp_path: Path) -> None:
    with sim(tmp_path, *FAST, "--prefix-cache") as running:
        asked = chat("word " * 100, stream_options={"include_usage": True})
        details = [running.events(asked)[-1]["usage"].get("prompt_tokens_details") for _ in "12"]
        assert details == [None, {"cached_tokens": 96}]
        hits = 'vllm:prefix_cache_hits_total{engine="0",model_name="sim"}'
        assert running.metrics()[hits] == 96
        running.call("/reset_prefix_cache", method="POST")
        assert "prompt_tokens_details" not in running.events(asked)[-1]["usage"]


def test_api_key(tmp_path: Path) -> None:
    with sim(tmp_path, *FAST, "--api-key", "secret") as running:
        assert running.call("/health")[0] == 200
        assert running.call("/v1/models")[0] == 401
        assert running.call("/v1/chat/completions", chat(), Authorization="Bearer no")[0] == 401
        status, content = running.call(
            "/v1/chat/completions", chat(), Authorization="Bearer secret"
        )
        assert (status, payloads(content)[-1]) == (200, "[DONE]")


def test_startup_delay_port_in_use_and_stop(tmp_path: Path) -> None:
    started = time.monotonic()
    with sim(tmp_path, "--startup-delay-s", "0.4") as running:
        assert time.monotonic() - started > 0.4
        command = [sys.executable, "-m", "bench_client.sim", "--port", str(running.port)]
        second = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        assert second.returncode == 1
        assert second.stderr.count("\n") == 1
        assert "already in use" in second.stderr
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(10) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--fault", "nonsense"],
        ["--fault", "stall"],
        ["--fault", "http:999"],
        ["--fixed", "50"],
        ["--accept-en", "1.5"],
        ["--answer-tokens", "9:3"],
        ["--max-running-requests", "0"],
        ["--step-ms", "fast"],
        ["--fixed", "50:20", "--draft-model", "d"],
    ],
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "error:" in last
    assert len(last) < 500
