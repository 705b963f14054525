"""The engine's log in SGLang 0.5.23's words, and the averages that SGLang only makes there."""

from collections.abc import Callable
from datetime import datetime

from .engine import Engine, Step
from .sequence import Sequence

DECODE_LOG_INTERVAL = 40  # decode steps between two lines
KV_POOL = 180_000  # tokens that fit in an L40 beside Qwen3-8B in 16 bit


class EngineLog:
    """Writes a line per prefill step and per DECODE_LOG_INTERVAL decode steps.

    `accept_length` is that of the last window; `lifetime_accept_length` takes in whole windows only
    and starts anew at `reset`, as SGLang's `avg_spec_accept_length` does: short runs have none.
    """

    def __init__(self, engine: Engine, write: Callable[[str], object], now_ns: int) -> None:
        self.throughput = 0.0
        self.accept_length = 0.0
        self._engine = engine
        self._write = write
        self._steps = 0
        self._tokens = 0
        self._verified = self._accepted = 0
        self._total_verified = self._total_accepted = 0
        self._decode_line_ns = self._prefill_line_ns = now_ns

    @property
    def lifetime_accept_length(self) -> float | None:
        """Tokens out of verify steps / verify steps, bonus token included."""
        if not self._total_verified:
            return None
        return 1 + self._total_accepted / self._total_verified

    def reset(self) -> None:
        """Forget the lifetime average."""
        self._total_verified = self._total_accepted = 0

    def say(self, now_ns: int, message: str) -> None:
        """Write one line with its time."""
        when = datetime.fromtimestamp(now_ns / 1e9).astimezone()
        self._write(f"[{when:%Y-%m-%d %H:%M:%S}] {message}\n")

    def observe(self, step: Step, emissions: list[tuple[Sequence, int]], now_ns: int) -> None:
        """Take in a finished step."""
        if step.kind == "prefill":
            self._prefill_line(step, now_ns)
            return
        self._steps += 1
        self._tokens += sum(tokens for _, tokens in emissions)
        if self._steps % DECODE_LOG_INTERVAL == 0:
            self._decode_line(now_ns)

    def _prefill_line(self, step: Step, now_ns: int) -> None:
        cached = sum(sequence.cached_tokens for sequence in step.sequences)
        new = sum(len(sequence.prompt.tokens) for sequence in step.sequences) - cached
        speed = new / max((now_ns - self._prefill_line_ns) / 1e9, 1e-9)
        self._prefill_line_ns = now_ns
        running = max(len(self._engine.running) - len(step.sequences), 0)
        self.say(
            now_ns,
            f"Prefill batch, #new-seq: {len(step.sequences)}, #new-token: {new}, "
            f"#cached-token: {cached}, token usage: {self._held() / KV_POOL:.2f}, "
            f"#running-req: {running}, #queue-req: {len(self._engine.waiting)}, "
            f"#pending-token: 0, cuda graph: True, input throughput (token/s): {speed:.2f}",
        )

    def _decode_line(self, now_ns: int) -> None:
        # Like SGLang's, the first line after an idle spell counts the idle time.
        self.throughput = self._tokens / max((now_ns - self._decode_line_ns) / 1e9, 1e-9)
        self._decode_line_ns = now_ns
        self._tokens = 0
        held = self._held()
        self.say(
            now_ns,
            f"Decode batch, #running-req: {len(self._engine.running)}, #token: {held}, "
            f"token usage: {held / KV_POOL:.2f}, {self._accept_fields()}cuda graph: True, "
            f"gen throughput (token/s): {self.throughput:.2f}, "
            f"#queue-req: {len(self._engine.waiting)}",
        )

    def _accept_fields(self) -> str:
        counters, settings = self._engine.counters, self._engine.settings
        verified = counters.verify_steps - self._verified
        accepted = sum(counters.accepted_per_position) - self._accepted
        if not settings.speculative or not verified:
            return ""
        self._verified += verified
        self._accepted += accepted
        self._total_verified += verified
        self._total_accepted += accepted
        self.accept_length = 1 + accepted / verified
        rate = accepted / (verified * settings.spec_steps)
        return f"accept len: {self.accept_length:.2f}, accept rate: {rate:.2f}, "

    def _held(self) -> int:
        return sum(len(s.prompt.tokens) + s.emitted for s in self._engine.running)
