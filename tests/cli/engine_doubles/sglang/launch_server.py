"""The embedded engine under SGLang's arguments, after what a real SGLang logged as it started."""

import argparse
import sys
from pathlib import Path

from bench_client.sim.__main__ import main

LOGS = Path(__file__).parents[3] / "fixtures"
PLAIN = LOGS / "engines" / "sglang-0.5.23-plain.server.log"
EAGLE = LOGS / "facts" / "sglang-0.5.16-eagle3.log"


def serve(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--host")
    parser.add_argument("--port")
    parser.add_argument("--served-model-name")
    parser.add_argument("--speculative-draft-model-path")
    parser.add_argument("--speculative-num-steps")
    asked, _ = parser.parse_known_args(arguments)
    given = ["--flavour", "sglang", "--host", asked.host, "--port", asked.port]
    given += ["--model", asked.served_model_name, "--step-ms", "10", "--verify-ms", "12"]
    if asked.speculative_draft_model_path:
        given += ["--draft-model", asked.speculative_draft_model_path]
        given += ["--spec-steps", asked.speculative_num_steps]
    log = EAGLE if asked.speculative_draft_model_path else PLAIN
    sys.stdout.write(log.read_text().partition("The server is fired up")[0].rpartition("\n")[0])
    sys.stdout.write("\n")
    return main(given)


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:]))
