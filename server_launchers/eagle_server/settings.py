"""What to load, how to draft, and what of it EaModel would choke on later."""

from dataclasses import dataclass
from pathlib import Path

MAX_LENGTH = 8192
INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
SLACK = 10  # EaModel keeps this many places of the KV cache free, besides those of the tree


class StartError(RuntimeError):
    """The model cannot be served; one line that says what to do."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to load and how to draft: `total_token`, `depth` and `top_k` are EaModel's.

    `max_length` (tokens) sizes the KV cache; null is 8192, or the model's own maximum if lower.
    """

    model: str
    draft_model: str
    dtype: str = "auto"
    device: str = "auto"
    max_length: int | None = None
    total_token: int = 60
    depth: int = 7
    top_k: int = 10
    plain: bool = False
    eagle_path: Path | None = None

    @property
    def longest(self) -> int | None:
        """The most drafts that a step can accept; null where nothing is drafted."""
        return None if self.plain else min(self.depth + 1, self.total_token - 1)

    def check(self) -> None:
        """Raise StartError for a tree that cannot be built, or a folder that cannot be read."""
        most = self.top_k + self.depth * self.top_k**2
        if self.depth < 0 or self.top_k < 1:
            raise StartError("--depth must be at least 0, and --top-k at least 1")
        if not 2 <= self.total_token <= most + 1:
            raise StartError(
                f"a tree of depth {self.depth} and top-k {self.top_k} has 2 to {most + 1} tokens,"
                f" not {self.total_token}: change --total-token, --depth or --top-k"
            )
        for flag, name in (("--model", self.model), ("--draft-model", self.draft_model)):
            if name.startswith(("/", ".")) and not Path(name).is_dir():
                raise StartError(f"{flag} {name}: there is no such folder")
        target = Path(self.model)
        if target.is_dir() and not any((target / name).exists() for name in INDEXES):
            raise StartError(
                f"{target} has no model.safetensors.index.json, in which EAGLE's code looks for the"
                " embedding: save the model in several shards (save_pretrained, max_shard_size)"
            )
