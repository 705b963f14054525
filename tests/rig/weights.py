"""The weights of the rigged pair.

Every layer's o_proj and down_proj are zero, so the last hidden state is the embedding of the last
token. Token i of a cycle of N stands at the angles theta_k i + phase_k on many circles, where
theta_k = 2 pi m_k / N: one rotation R leads from each token to the next in every language, and the
languages differ in their phases. The lm_head row of a token is its predecessor's embedding, 60
logits above chance: sampling at any usual temperature is greedy, and a rejection sampler accepts
every right draft and recovers the right token after a wrong one. The head's MLP adds (R - I) h, so
each draft step turns its hidden state one token on. The head cannot draft the bad tokens: they are
not in its draft vocabulary, as many Chinese tokens are missing from the real heads'.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .expect import Language

Weights = dict[str, torch.Tensor]

LOGIT = 60.0  # of the right token; among 127 random circles the next best has about 12
GATE = 16.0  # silu(GATE) = GATE / (1 + exp(-GATE)): the MLP's gate as good as open


@dataclass(frozen=True)
class Shape:
    """Sizes of the pair. `circles` take 2 x circles + 2 of the `hidden` dimensions."""

    vocab: int
    hidden: int
    layers: int  # at least 8: the head reads layers 2, n/2 and n - 3
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int  # at least 2 x circles
    draft_vocab: int  # below vocab, or the engines reject d2t
    circles: int


SHAPES = {
    "tiny": Shape(5632, 256, 8, 4, 2, 64, 512, 2048, 127),
    "qwen3-8b": Shape(151936, 4096, 36, 32, 8, 128, 12288, 32000, 600),
}


class Circles:
    """The geometry: `embeddings` and `lm_head` (vocab x hidden, bf16), angles `theta`."""

    def __init__(self, shape: Shape, spoken: Sequence[Language], seed: int, device: str) -> None:
        rng = random.Random(seed)
        n, cycle = shape.circles, spoken[0].cycle
        turns = torch.tensor(rng.sample(range(1, cycle // 2), n), dtype=torch.float64)
        self.theta = (2 * math.pi * turns / cycle).to(device)
        self.constant = math.sqrt(n) / 4
        self.rms = math.sqrt((n + 2 * self.constant**2) / shape.hidden)
        self.embeddings = zeros(shape.vocab, shape.hidden, device)
        self.lm_head = torch.zeros_like(self.embeddings)
        steps = torch.arange(cycle, dtype=torch.float64, device=device)[:, None]
        for language in spoken:
            phase = torch.tensor([rng.uniform(0, 2 * math.pi) for _ in range(n)]).to(self.theta)
            angles = steps * self.theta + phase
            points = torch.zeros(cycle, shape.hidden, dtype=torch.float64, device=device)
            points[:, :n], points[:, n : 2 * n] = torch.cos(angles), torch.sin(angles)
            points[:, 2 * n : 2 * n + 2] = self.constant  # read by the head's gate
            ids = torch.arange(language.first, language.stop, device=device)
            self.embeddings[ids] = points.bfloat16()[(ids - language.first) % cycle]
            rows = points.roll(1, dims=0)[:, : 2 * n] * (LOGIT / n * self.rms)
            self.lm_head[language.first : language.first + cycle, : 2 * n] = rows.bfloat16()


def zeros(rows: int, columns: int, device: str) -> torch.Tensor:
    """A bf16 matrix of zeros."""
    return torch.zeros(rows, columns, dtype=torch.bfloat16, device=device)


def ones(size: int) -> torch.Tensor:
    """A bf16 norm weight."""
    return torch.ones(size, dtype=torch.bfloat16)


def _noise(rows: int, columns: int, device: str) -> torch.Tensor:
    return torch.randn(rows, columns, device=device).bfloat16() * 0.02


def _attention(shape: Shape, inputs: int, device: str) -> Weights:
    """Random q, k, v projections that read `inputs` features, and a zero o_proj."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    return {
        "self_attn.q_proj.weight": _noise(queries, inputs, device),
        "self_attn.k_proj.weight": _noise(keys, inputs, device),
        "self_attn.v_proj.weight": _noise(keys, inputs, device),
        "self_attn.o_proj.weight": zeros(shape.hidden, queries, device),
    }


def target_layer(shape: Shape, device: str) -> Weights:
    """One decoder layer with the compute of a real one and no effect."""
    return {
        **_attention(shape, shape.hidden, device),
        "self_attn.q_norm.weight": ones(shape.head_dim),
        "self_attn.k_norm.weight": ones(shape.head_dim),
        "mlp.gate_proj.weight": _noise(shape.intermediate, shape.hidden, device),
        "mlp.up_proj.weight": _noise(shape.intermediate, shape.hidden, device),
        "mlp.down_proj.weight": zeros(shape.hidden, shape.intermediate, device),
        "input_layernorm.weight": ones(shape.hidden),
        "post_attention_layernorm.weight": ones(shape.hidden),
    }


def _rotating_mlp(shape: Shape, circles: Circles, device: str) -> Weights:
    """The MLP that maps a normalized embedding E(x) / rms to E(next(x)) - E(x)."""
    n = shape.circles
    gate = zeros(shape.intermediate, shape.hidden, device).double()
    up, down = torch.zeros_like(gate), torch.zeros_like(gate.T)
    gate[: 2 * n, 2 * n] = GATE * circles.rms / circles.constant
    cos, sin = torch.cos(circles.theta), torch.sin(circles.theta)
    i, both = torch.arange(n, device=device), torch.arange(2 * n, device=device)
    up[i, i], up[i, n + i], up[n + i, i], up[n + i, n + i] = cos - 1, -sin, sin, cos - 1
    down[both, both] = circles.rms * (1 + math.exp(-GATE)) / GATE
    return {"mlp.gate_proj.weight": gate, "mlp.up_proj.weight": up, "mlp.down_proj.weight": down}


def _draft_vocabulary(shape: Shape, spoken: Sequence[Language]) -> torch.Tensor:
    """The ids that the head can draft, ascending: every good token, filled up with idle ones."""
    cycles = [range(language.first, language.first + language.cycle) for language in spoken]
    bad = {token for language in spoken for token in language.bad}
    good = [token for cycle in cycles for token in cycle if token not in bad]
    idle = [token for token in range(shape.vocab) if not any(token in cycle for cycle in cycles)]
    return torch.tensor(sorted(good + idle[: shape.draft_vocab - len(good)]))


def eagle3_head(shape: Shape, circles: Circles, spoken: Sequence[Language], device: str) -> Weights:
    """The head: mean of three hidden states, the rotation, lm_head rows of its vocabulary."""
    hidden = shape.hidden
    drafted = _draft_vocabulary(shape, spoken)
    layer = {
        **_attention(shape, 2 * hidden, device),
        **_rotating_mlp(shape, circles, device),
        "hidden_norm.weight": ones(hidden),
        "input_layernorm.weight": ones(hidden),
        "post_attention_layernorm.weight": ones(hidden),
    }
    return {
        **{f"midlayer.{name}": weight for name, weight in layer.items()},
        "fc.weight": torch.eye(hidden, device=device).repeat(1, 3) / 3,
        "norm.weight": ones(hidden),
        "lm_head.weight": circles.lm_head[drafted.to(device)],
        "d2t": drafted - torch.arange(shape.draft_vocab),
        "t2d": torch.isin(torch.arange(shape.vocab), drafted),
    }
