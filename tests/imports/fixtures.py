"""Where the imported files of the tests are.

`notes`: two real blog notes. `golden`: printed blocks of each version with stand-in numbers.
`engine_logs`: the decode lines of real servers. `tools`: real output of AIPerf and GuideLLM against
a mock server, cut to what matters.
"""

from pathlib import Path

from bench_client.imports.files import import_file
from bench_client.records import Imported, Run

FIXTURES = Path(__file__).parents[1] / "fixtures"


def text(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


def runs(name: str) -> list[Run]:
    return import_file(name, text(name))


def imported(run: Run) -> Imported:
    assert run.header.imported is not None
    return run.header.imported
