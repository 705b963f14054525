"""The send log against what arrived, and the mode with fixed times."""

import json
from pathlib import Path
from statistics import median

import pytest

from .running import (
    FAST,
    Running,
    chat,
    http_request,
    payloads,
    read_stamped,
    sim,
    stamped_connection,
)


def test_sent_and_received_agree(speculative: Running) -> None:
    asked = chat(max_tokens=60, return_token_ids=True)
    with stamped_connection(speculative.port) as sock:
        headers = ("x-request-id: judged", "connection: close")
        sock.sendall(http_request("/v1/chat/completions", asked, *headers))
        reads = read_stamped(sock)
    (entry,) = [e for e in speculative.send_log() if e["id"] == "judged"]
    arrived = []
    for stamp, data in reads:
        for line in data.split(b"\r\n"):
            if b'"token_ids":[' in line:
                (event,) = payloads(line)
                assert event["id"] == "judged"
                arrived.append((stamp, len(event["choices"][0]["token_ids"])))
    sent = entry["events"]
    assert [n for _, n in sent] == [n for _, n in arrived]
    assert entry["output_tokens"] == 60
    assert entry["input_tokens"] == 6
    assert entry["finish_reason"] == "length"
    assert sum(entry["accept_histogram"]) == len(sent) - 1
    delays = [got - left for (left, _), (got, _) in zip(sent, arrived, strict=True)]
    assert min(delays) >= 0
    assert median(delays) < 2_000_000
    assert entry["received_ns"] < sent[0][0]


def test_generated_id_is_the_chunks_id_and_reset_forgets(speculative: Running) -> None:
    first = speculative.events(chat())[0]
    assert first["id"] in {entry["id"] for entry in speculative.send_log()}
    _, lines = speculative.call("/send_log?reset=1")
    assert first["id"] in lines.decode()
    assert speculative.send_log() == []
    speculative.events(chat())
    assert len(speculative.send_log()) == 1
    assert speculative.call("/send_log", method="DELETE")[0] == 200
    assert speculative.send_log() == []


def test_file_has_ended_requests_at_once_and_the_rest_at_exit(tmp_path: Path) -> None:
    path = tmp_path / "sent.jsonl"
    with sim(tmp_path, *FAST, "--send-log", str(path)) as running:
        running.call("/v1/chat/completions", chat(), **{"x-request-id": "ended"})
        assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["ended"]
        with running.connect() as sock:
            endless = chat(max_tokens=30_000, ignore_eos=True)
            sock.sendall(http_request("/v1/chat/completions", endless, "x-request-id: going"))
            while b'"content":" ' not in sock.recv(4096):
                pass
            running.process.terminate()
            assert running.process.wait(10) == 0
    ended, going = map(json.loads, path.read_text().splitlines())
    assert (ended["id"], ended["finish_reason"], ended["output_tokens"]) == ("ended", "length", 20)
    assert (going["id"], going["finish_reason"]) == ("going", None)
    assert going["output_tokens"] == len(going["events"]) > 0


@pytest.mark.parametrize(
    ("streams", "arguments"),
    [(20, ["--fixed", "10:10"]), (1, ["--step-ms", "10", "--jitter", "0"])],
)
def test_times_are_kept_and_lateness_does_not_add_up(
    streams: int, arguments: list[str], tmp_path: Path
) -> None:
    with sim(tmp_path, *arguments) as running:
        socks = [stamped_connection(running.port) for _ in range(streams)]
        try:
            for sock in socks:
                asked = chat(max_tokens=40, ignore_eos=True)
                sock.sendall(http_request("/v1/chat/completions", asked, "connection: close"))
            for sock in socks:
                assert read_stamped(sock)[-1][1].endswith(b"0\r\n\r\n")
        finally:
            for sock in socks:
                sock.close()
        entries = running.send_log()
    assert len(entries) == streams
    punctual = []
    for entry in entries:
        instants = [sent for sent, _ in entry["events"]]
        assert [n for _, n in entry["events"]] == [1] * 40
        due = [entry["received_ns"] + i * 10_000_000 for i in range(1, 41)]
        late = [sent - at for sent, at in zip(instants, due, strict=True)]
        assert min(late) >= 0
        punctual.append(min(late[20:]))
    assert median(punctual) < 2_000_000  # however busy this machine made the server at times
