"""Small real servers for the process tests, run as `python servers.py KIND PORT MODEL`.

They stand in for an engine's process tree only: what a server answers is tested elsewhere.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LONG_S = 120


class Models(BaseHTTPRequestHandler):
    model = "m"
    status = 200

    def do_GET(self) -> None:
        body = json.dumps({"object": "list", "data": [{"id": self.model}]}).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def serve(port: int, model: str) -> None:
    Models.model = model
    ThreadingHTTPServer(("127.0.0.1", port), Models).serve_forever()


def stubborn(port: int, model: str) -> None:
    """Ignores SIGTERM, has an orphan that left the session, which has a child that did too."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = (
        "import os, signal, subprocess, sys, time; os.setsid();"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "p = subprocess.Popen([sys.executable, '-c', "
        f"'import os, time; os.setsid(); time.sleep({LONG_S})']);"
        f"print('TREE', os.getpid(), p.pid, flush=True); time.sleep({LONG_S})"
    )
    middle = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}])"
    subprocess.run([sys.executable, "-c", middle], check=True)  # ends: its child is an orphan
    say("TREE", os.getpid())
    serve(port, model)


def main(kind: str, port: str, model: str) -> None:
    if kind == "serve":
        serve(int(port), model)
    elif kind == "locked":
        Models.status = 401
        serve(int(port), model)
    elif kind == "stubborn":
        stubborn(int(port), model)
    elif kind == "fails":
        say("loading")
        raise RuntimeError("the weights are made of cheese")
    elif kind == "silent":
        say("still loading shard 3 of 9")
        time.sleep(LONG_S)
    elif kind == "dies":
        raise SystemExit(serve_until(int(port), model, Path(os.environ["DIE_WHEN"])))
    elif kind == "environment":
        say("PROXY", os.environ["NO_PROXY"], os.environ["ADDED"], os.environ["HOME"])
        serve(int(port), model)


def serve_until(port: int, model: str, flag: Path) -> int:
    threading.Thread(target=serve, args=(port, model), daemon=True).start()
    while not flag.exists():
        time.sleep(0.05)
    say("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    return 3


if __name__ == "__main__":
    main(*sys.argv[1:])
