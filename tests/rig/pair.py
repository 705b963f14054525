"""Write a rigged target model (Qwen3 layout), its EAGLE3 head and their tokenizer.

Run with an engine's Python from the repository's root, for example
`.engines/vllm/bin/python -m tests.rig.pair OUT` (tiny, for a CPU) or
`python3 -m tests.rig.pair OUT --shape qwen3-8b --device cuda` (17 GB, the real model's compute).
Writes OUT/target, OUT/eagle3 and OUT/rig.json, which `tests.rig.expect` reads.
"""

import argparse
import json
import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file  # type: ignore[import-not-found]

from . import tokenizer
from .expect import Language
from .weights import SHAPES, Circles, Shape, Weights, eagle3_head, ones, target_layer


def languages(miss: dict[str, float], vocab: int, seed: int) -> list[Language]:
    """Both ranges of ids with exactly `miss` of each cycle bad, drawn by `seed`."""
    rng = random.Random(seed)
    border, size = len(tokenizer.ENGLISH), tokenizer.CYCLE
    found = []
    for name, first, stop in (("english", 0, border), ("chinese", border, vocab)):
        bad = rng.sample(range(first, first + size), round(miss[name] * size))
        found.append(Language(name, first, stop, size, miss[name], frozenset(bad)))
    return found


def configs(shape: Shape, max_len: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """config.json of the target and of the head."""
    common = {
        "torch_dtype": "bfloat16",
        "vocab_size": shape.vocab,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": max_len,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": tokenizer.token_id("<s>"),
        "eos_token_id": tokenizer.token_id("</s>"),
    }
    target = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "num_hidden_layers": shape.layers,
        "max_window_layers": shape.layers,
        "use_sliding_window": False,
        "rope_theta": 1000000.0,
    }
    head = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "draft_vocab_size": shape.draft_vocab,
        "rope_theta": 10000.0,
    }
    return common | target, common | head


def save(path: Path, weights: Weights) -> None:
    """Write one safetensors file, floats as bf16."""
    ready = {k: v.bfloat16() if v.is_floating_point() else v for k, v in weights.items()}
    save_file({k: v.contiguous().cpu() for k, v in ready.items()}, path, {"format": "pt"})


def save_target(folder: Path, shape: Shape, circles: Circles, device: str) -> None:
    """One shard a layer, so that a large shape never lies in memory whole, and the index."""
    index: dict[str, str] = {}

    def shard(name: str, weights: Weights) -> None:
        save(folder / name, weights)
        index.update(dict.fromkeys(weights, name))

    ends = {
        "model.embed_tokens.weight": circles.embeddings,
        "model.norm.weight": ones(shape.hidden),
        "lm_head.weight": circles.lm_head,
    }
    shard("model-ends.safetensors", ends)
    for number in range(shape.layers):
        layer = target_layer(shape, device)
        named = {f"model.layers.{number}.{name}": weight for name, weight in layer.items()}
        shard(f"model-layer-{number:02d}.safetensors", named)
    save_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": index})


def save_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON as UTF-8."""
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def write_pair(options: argparse.Namespace) -> None:
    """Write the whole pair under `options.out`, rig.json last: it marks a complete pair."""
    shape, device, out = SHAPES[options.shape], options.device, options.out
    torch.manual_seed(options.seed)
    miss = {"english": options.english_miss, "chinese": options.chinese_miss}
    spoken = languages(miss, shape.vocab, options.seed)
    circles = Circles(shape, spoken, options.seed, device)
    target, head = out / "target", out / "eagle3"
    for folder, config in zip((target, head), configs(shape, options.max_len), strict=True):
        folder.mkdir(parents=True, exist_ok=True)
        save_json(folder / "config.json", config)
    save_json(target / "generation_config.json", {"eos_token_id": tokenizer.token_id("</s>")})
    save_json(target / "tokenizer.json", tokenizer.tokenizer_json())
    save_json(target / "tokenizer_config.json", tokenizer.tokenizer_config(options.max_len))
    save_target(target, shape, circles, device)
    save(head / "model.safetensors", eagle3_head(shape, circles, spoken, device))
    noted = [asdict(language) | {"bad": sorted(language.bad)} for language in spoken]
    save_json(out / "rig.json", {"shape": options.shape, "seed": options.seed, "languages": noted})


def main() -> None:
    """Parse the command line and write the pair."""
    parser = argparse.ArgumentParser(description="write a rigged target model and EAGLE3 head")
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--shape", choices=SHAPES, default="tiny")
    parser.add_argument("--device", default="cpu", help="where to compute: cpu or cuda")
    parser.add_argument("--english-miss", type=float, default=0.15, metavar="SHARE")
    parser.add_argument("--chinese-miss", type=float, default=0.65, metavar="SHARE")
    parser.add_argument("--max-len", type=int, default=8192, help="max_position_embeddings")
    parser.add_argument("--seed", type=int, default=7)
    write_pair(parser.parse_args())


if __name__ == "__main__":
    main()
