"""`python -m server_launchers.eagle_server --model TARGET --draft-model HEAD`."""

import argparse
import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from . import offline
from .model import Engine, load
from .service import Service
from .serving import Server
from .settings import MAX_LENGTH, Settings, StartError
from .versions import versions

PROGRAM = "eagle_server"
log = logging.getLogger(PROGRAM)


def parser() -> argparse.ArgumentParser:
    """The command line. The tree's defaults are EAGLE's own."""
    parser = argparse.ArgumentParser(PROGRAM, description="EAGLE's EaModel behind OpenAI's API")
    add = parser.add_argument
    add("--model", required=True, help="the target model: a path or a hub id")
    add("--draft-model", required=True, help="the EAGLE3 head (a plain arm loads it too)")
    add("--eagle-path", type=Path, metavar="DIR", help="a clone of SafeAILab/EAGLE")
    add("--plain", action="store_true", help="EAGLE's baseline: the same model, no drafts")
    add("--total-token", type=int, default=60, help="tokens a step verifies, root included")
    add("--depth", type=int, default=7, help="levels of the tree, less one")
    add("--top-k", type=int, default=10, help="branches of the tree; 1 is a chain")
    dtypes = ["auto", "bfloat16", "float16", "float32"]
    add("--dtype", choices=dtypes, default="auto")
    add("--device", default="auto", help="transformers' device_map, such as cuda or cpu")
    add("--max-length", type=int, help=f"size of the KV cache in tokens [up to {MAX_LENGTH}]")
    server = parser.add_argument_group("server").add_argument
    server("--host", default="127.0.0.1")
    server("--port", type=int, default=8000)
    server("--served-model-name", help="name in the API [the model's path or id]")
    without = parser.add_argument_group("without a server").add_argument
    without("--offline", action="store_true", help="answer --prompts, print a line for each")
    without("--prompts", type=Path, metavar="FILE", help=".jsonl of prompt or messages")
    without("--max-tokens", type=int, default=512)
    without("--temperature", type=float, default=0.0)
    without("--seed", type=int, default=0)
    without("--ignore-eos", action="store_true")
    return parser


def main(argv: list[str] | None = None) -> None:
    """Load the model, then serve it or answer the prompts."""
    given = parser().parse_args(argv)
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(message)s")
    settings = Settings(
        model=given.model,
        draft_model=given.draft_model,
        dtype=given.dtype,
        device=given.device,
        max_length=given.max_length,
        total_token=given.total_token,
        depth=given.depth,
        top_k=given.top_k,
        plain=given.plain,
        eagle_path=given.eagle_path,
    )
    try:
        if given.offline:
            run_offline(settings, given)
        else:
            serve(settings, given)
    except (StartError, offline.PromptsError, OSError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def serve(settings: Settings, given: argparse.Namespace) -> None:
    """Serve until interrupted; the port is held while the model loads."""
    with Server(given.host, given.port) as server:
        engine = _ready(settings)
        server.open(Service(engine, given.served_model_name or settings.model, versions()))
        log.info("serving on port %d: %s", server.server_port, settings)
        server.serve_forever()


def run_offline(settings: Settings, given: argparse.Namespace) -> None:
    """Answer every prompt of a file."""
    if given.prompts is None:
        raise offline.PromptsError("--offline needs --prompts FILE")
    asks = offline.read_prompts(given.prompts)
    engine = _ready(settings)
    sampling = replace(engine.defaults, temperature=given.temperature, seed=given.seed)
    options = offline.Options(given.max_tokens, sampling, given.ignore_eos)
    offline.run(engine, asks, options, sys.stdout)


def fail(message: str) -> NoReturn:
    """End with one line."""
    sys.stderr.write(f"{PROGRAM}: error: {' '.join(message.split())}\n")
    sys.exit(1)


def _ready(settings: Settings) -> Engine:
    engine = load(settings)
    engine.warm_up()
    return engine


if __name__ == "__main__":
    main()
