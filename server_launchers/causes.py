"""The table behind diagnose.py: how a failure looks in a log, and what to do about it.

Texts are those of SGLang 0.5.3 to 0.5.23, vLLM 0.24 to 0.32, transformers 4.53 to 5.19 and torch
2.6 to 2.13. Earlier rows win.
"""

import re

from . import causes_machine, causes_model
from .rules import Rule

# Errors that only report that another process failed.
SECOND_HAND = re.compile(
    r"[Ss]ee root cause above|[Ss]ee (?:the )?stack trace|EngineDeadError|EngineGenerateError"
    r"|scheduler died during init|Initialization failed|^EOFError|^SystemExit|^KeyboardInterrupt"
    r"|CancelledError|BrokenPipeError|ConnectionResetError|DistBackendError|ProcessExitedException"
    r"|^RuntimeError: Rank \d+ scheduler|Worker failed with error|WorkerProc initialization failed"
)

# A server that says this has failed for good, though its process may wait on forever.
DOOMED = re.compile(
    r"Scheduler hit an exception|EngineCore failed to start|Received sigquit from a child process"
    r"|error while attempting to bind on address"
)

RULES: tuple[Rule, ...] = (*causes_model.RULES, *causes_machine.RULES)
