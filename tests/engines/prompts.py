"""Short prompts in both of the rig's languages, the last word of which decides the answer."""

import json
from pathlib import Path

PROMPTS = {
    "river": "tell me of the river and the stone",
    "birds": "count the birds",
    "bread": "how is bread made",
    "sea": "why is the sea salty",
    "moon": "who walked on the moon",
    "stone": "请说说河流和石头",
    "spring": "写一首关于春天的诗",
    "tea": "怎样泡一壶好茶",
}
CHINESE = {"stone", "spring", "tea"}


def write_prompts(path: Path) -> Path:
    """A scenario of all of them."""
    lines = [
        {"id": name, "language": "zh" if name in CHINESE else "en", "prompt": text}
        for name, text in PROMPTS.items()
    ]
    path.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n")
    return path
