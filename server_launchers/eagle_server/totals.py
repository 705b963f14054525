"""The server's counters since its start, under vLLM's names. Pure."""

from collections import Counter

from .stepping import Acceptance, Step


class Totals:
    """Counted a step at a time, before its tokens are sent: nothing seen is missing here."""

    def __init__(self, longest: int | None) -> None:
        """`longest` is the most drafts that a step can accept; null if nothing is drafted."""
        self.acceptance = None if longest is None else Acceptance(longest)
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.finished: Counter[str] = Counter(stop=0, length=0)

    def count(self, step: Step) -> None:
        """Add one step of an answer."""
        if self.acceptance:
            self.acceptance.count(step)
        self.generation_tokens += len(step.token_ids)
        if step.finish:
            self.finished[step.finish] += 1

    def prometheus(self, model: str) -> bytes:
        """The text of /metrics."""
        escaped = model.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        label = f'model_name="{escaped}"'
        families: dict[str, dict[str, int]] = {
            "prompt_tokens_total": {label: self.prompt_tokens},
            "generation_tokens_total": {label: self.generation_tokens},
            "request_success_total": {
                f'{label},finished_reason="{reason}"': n for reason, n in self.finished.items()
            },
        }
        if self.acceptance:
            families |= _speculation(label, self.acceptance)
        lines: list[str] = []
        for name, samples in families.items():
            lines.append(f"# TYPE vllm:{name} counter\n")
            lines += [f"vllm:{name}{{{labels}}} {value}\n" for labels, value in samples.items()]
        return "".join(lines).encode()


def _speculation(label: str, counts: Acceptance) -> dict[str, dict[str, int]]:
    return {
        "spec_decode_num_drafts_total": {label: counts.steps},
        "spec_decode_num_draft_tokens_total": {label: counts.steps * counts.longest},
        "spec_decode_num_accepted_tokens_total": {label: counts.accepted},
        "spec_decode_num_accepted_tokens_per_pos_total": {
            f'{label},position="{position}"': n for position, n in enumerate(counts.per_position)
        },
    }
