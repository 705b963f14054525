"""Who answers at a URL, where the server does not give its own name."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest

from bench_client.run.server_facts import ControlPlane, ServerError, ServerFacts
from bench_client.wire.endpoint import parse_endpoint

# The paths of 5.5 and of 5.24; vLLM has some of them too.
OLDER = {"/v1/chat/completions": {}, "/v1/responses": {}, "/load_model": {}, "/reset": {}}
NEWER = {**OLDER, "/v1/completions": {}}
OTHER = {"/v1/chat/completions": {}, "/v1/responses": {}}


def models(owner: str) -> dict[str, Any]:
    return {"data": [{"id": "m", "owned_by": owner}]}


def identified(pages: dict[str, Any]) -> ServerFacts:
    """By a server that has these pages, 404 for the rest and 500 for null, after which it closes
    the connection in a while and without a word, as uvicorn does.
    """

    class Pages(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found = pages.get(self.path)
            status = 200 if found is not None else 500 if self.path in pages else 404
            body = msgspec.json.encode(found)
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            if status == 500:
                time.sleep(0.05)
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            with ControlPlane(parse_endpoint(url), {}) as control:
                return control.identify()
        finally:
            server.shutdown()


@pytest.mark.parametrize("paths", [OLDER, NEWER])
@pytest.mark.parametrize("listed", [None, models("Qwen")])
def test_transformers_serve_is_known_by_its_paths(paths: dict[str, Any], listed: Any) -> None:
    """Without a download cache its list of models is an error."""
    facts = identified({"/v1/models": listed, "/openapi.json": {"paths": paths}})
    assert (facts.dialect, facts.engine) == ("transformers", "transformers")
    assert facts.models == (("m",) if listed else ())


@pytest.mark.parametrize("schema", [{"paths": OTHER}, {}, []])
def test_others_are_not_taken_for_it(schema: Any) -> None:
    facts = identified({"/v1/models": models("someone"), "/openapi.json": schema})
    assert (facts.dialect, facts.engine) == ("openai", None)
    with pytest.raises(ServerError, match=r"no OpenAI-compatible server at .* gave 500"):
        identified({"/v1/models": None, "/openapi.json": schema})


def test_an_owner_that_names_itself_is_believed() -> None:
    facts = identified({"/v1/models": models("vllm"), "/openapi.json": {"paths": NEWER}})
    assert facts.dialect == "vllm"


@pytest.mark.parametrize("page", ["/version", "/server_info", "/get_server_info"])
@pytest.mark.parametrize(("said", "expected"), [(True, "sim"), (False, "vllm"), (None, "vllm")])
def test_an_engine_that_says_that_it_is_simulated(page: str, said: Any, expected: str) -> None:
    facts = identified({"/v1/models": models("vllm"), page: {"version": "1", "simulated": said}})
    assert (facts.engine, facts.dialect, facts.version) == (expected, "vllm", "1")
    assert facts.simulated is (expected == "sim")
