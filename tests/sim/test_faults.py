"""Each fault, as far as its bytes can be seen with a plain socket."""

import json
from pathlib import Path

import pytest

from bench_client.sim.faults import KINDS, parse

from .running import FAST, Running, Seen, chat, http_request, payloads, read_all, sim
from .seen import PLAIN_END, head_and_body, see, tokens_in, unchunked


def test_the_right_answer_looks_right(plain: Running) -> None:
    seen = plain.see(chat())
    assert (seen.end, seen.data[-len(PLAIN_END) :]) == ("closed", PLAIN_END)
    assert tokens_in(seen.data) == 20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "one of refuse, "),
        ("stall", "stall:N"),
        ("stall:x", "stall:N"),
        ("http", "http:400|"),
        ("http:418", "http:400|"),
        ("http:500:xml", "http:400|"),
        ("crlf:3", "takes no argument"),
    ],
)
def test_a_fault_that_is_not_one_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("|", r"\|")):
        parse(text)


def test_reset_before(plain: Running) -> None:
    assert see(plain, "reset_before") == Seen(b"", "reset")


def test_reset_after(plain: Running) -> None:
    seen = see(plain, "reset_after:3")
    assert seen.end == "reset"
    assert tokens_in(seen.data) == 3


def test_truncated_chunk(plain: Running) -> None:
    seen = see(plain, "truncated_chunk:3")
    assert (seen.end, tokens_in(seen.data)) == ("closed", 3)
    last = seen.data.rpartition(b"\r\n")[2]
    size = seen.data.rpartition(b"\r\n")[0].rpartition(b"\r\n")[2]
    assert 0 < len(last) < int(size, 16)


def test_truncated_stream(plain: Running) -> None:
    seen = see(plain, "truncated_stream:3")
    assert (seen.end, tokens_in(seen.data)) == ("closed", 3)
    assert seen.data.endswith(b"\n\n\r\n")


def test_no_end(plain: Running) -> None:
    body = unchunked(head_and_body(see(plain, "no_end:3"))[1])
    assert tokens_in(body) == 3
    assert b"[DONE]" not in body
    assert all(e["choices"][0]["finish_reason"] is None for e in payloads(body))


@pytest.mark.parametrize(("fault", "tokens"), [("error_before", 0), ("error_after:3", 3)])
def test_error_event(plain: Running, sglang: Running, fault: str, tokens: int) -> None:
    body = unchunked(head_and_body(see(plain, fault))[1])
    assert tokens_in(body) == tokens
    error, done = payloads(body)[-2:]
    assert done == "[DONE]"
    assert set(error) == {"error"}
    assert set(error["error"]) == {"message", "type", "param", "code"}
    body = unchunked(head_and_body(see(sglang, fault))[1])
    assert payloads(body)[-2]["error"]["object"] == "error"
    asked = {"text": "hi", "stream": True, "sim_fault": fault}
    body = unchunked(head_and_body(sglang.see(asked, "/generate"))[1])
    assert payloads(body)[-2]["error"]["retryable"] is False


def test_error_string(plain: Running) -> None:
    body = unchunked(head_and_body(see(plain, "error_string:3"))[1])
    assert tokens_in(body) == 3
    assert isinstance(payloads(body)[-1]["error"], str)


def test_abort(plain: Running, sglang: Running) -> None:
    for running in (plain, sglang):
        body = unchunked(head_and_body(see(running, "abort:3"))[1])
        last, done = payloads(body)[-2:]
        assert (last["choices"][0]["finish_reason"], done) == ("abort", "[DONE]")
    asked = {"text": "hi", "stream": True, "sim_fault": "abort:3"}
    body = unchunked(head_and_body(sglang.see(asked, "/generate"))[1])
    assert payloads(body)[-2]["meta_info"]["finish_reason"]["type"] == "abort"


@pytest.mark.parametrize("code", [400, 401, 404, 422, 429, 500, 503])
@pytest.mark.parametrize("html", [False, True])
def test_http(plain: Running, code: int, html: bool) -> None:
    head, body = head_and_body(see(plain, f"http:{code}" + ":html" * html))
    assert head.startswith(b"HTTP/1.1 %d " % code)
    assert (b"\r\nretry-after: 1" in head) == (code == 429)
    if html:
        assert b"text/html" in head
        assert body.startswith(b"<html>")
    else:
        assert json.loads(body)["error"]["code"] == code


def test_not_a_stream_and_html_200(plain: Running) -> None:
    head, body = head_and_body(see(plain, "not_a_stream"))
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"application/json" in head
    assert json.loads(body)["usage"]["completion_tokens"] == 20
    head, body = head_and_body(see(plain, "html_200"))
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert body.startswith(b"<html>")


def test_never_answers_and_stall(plain: Running) -> None:
    assert see(plain, "never_answers", timeout=0.3) == Seen(b"", "open")
    seen = see(plain, "stall:3", timeout=1)
    assert (seen.end, tokens_in(seen.data)) == ("open", 3)
    assert plain.metrics()['sglang:num_running_reqs{model_name="sim"}'] == 0


def test_endless_goes_on_past_the_limit(plain: Running) -> None:
    data = b""
    with plain.connect() as sock:
        sock.sendall(http_request("/v1/chat/completions", chat(sim_fault="endless")))
        while tokens_in(data) <= 60:  # 20 were asked for
            piece = sock.recv(1 << 16)
            assert piece, "it ended"
            data += piece
    assert b"[DONE]" not in data


def test_refuse_concerns_the_whole_server(tmp_path: Path) -> None:
    with sim(tmp_path, "--fault", "refuse") as running, running.connect() as sock:
        assert read_all(sock) in (Seen(b"", "closed"), Seen(b"", "reset"))


def test_die_takes_the_process_along_and_leaves_its_log(tmp_path: Path) -> None:
    log = tmp_path / "sent.jsonl"
    with sim(tmp_path, *FAST, "--fault", "die:5", "--send-log", str(log)) as running:
        seen = running.see(chat())
        assert tokens_in(seen.data) == 5
        assert running.process.wait(10) == -9
    (entry,) = map(json.loads, log.read_text().splitlines())
    assert entry["output_tokens"] == 5
    assert entry["finish_reason"] is None


def test_a_servers_fault_strikes_every_request_but_those_with_their_own(tmp_path: Path) -> None:
    with sim(tmp_path, *FAST, "--fault", "http:503") as running:
        assert running.call("/v1/models")[0] == 200
        assert running.call("/v1/chat/completions", chat())[0] == 503
        assert running.call("/v1/chat/completions", chat(sim_fault="crlf"))[0] == 200


def test_every_kind_is_tested_here() -> None:
    here = Path(__file__)
    source = here.read_text() + here.with_name("test_fault_shapes.py").read_text()
    assert [kind for kind in KINDS if kind not in source] == []
