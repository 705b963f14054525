"""Whether a model's files are here, may be fetched, and fit the GPU."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import structs

from .finding import GIB, Row
from .gpu import Gpu, visible
from .home import at_home
from .hub import cache, commit, home, repository

BUSY_GIB = 1
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
# Repositories that give their files only to those who have accepted a licence.
GATED = re.compile(r"meta-llama/")
# GiB in 16 bits, of the shipped presets' models: known before they are fetched.
WEIGHTS_GIB = {"Qwen/Qwen3-8B": 15.3, "meta-llama/Llama-3.1-8B-Instruct": 15.0}


def model_row(model: str, name: str = "model") -> Row:
    """Whether the weights of a path or repository are on this machine."""
    return structs.replace(_weights_row(model), name=name)


def _weights_row(model: str) -> Row:
    folder = _folder(model)
    if folder is None:
        return _absent(model)
    lacking = _lacking(folder)
    if lacking:
        advice = "the rest is still to be fetched, by a first start or `hf download`"
        detail = f"{model}: {lacking} of its files are not in {folder}"
        return Row(name="model", status="warning", detail=detail, advice=advice)
    where = "" if Path(model).exists() else " in the cache of downloads"
    detail = f"{model}: {_bytes(folder) / GIB:.1f} GiB of weights{where}"
    return Row(name="model", status="ok", detail=detail)


def head_rows(models: Iterable[tuple[str, str | None]]) -> list[Row]:
    """A row for each head that is here and made for another hidden size than its model's."""
    found = []
    for model, head in models:
        made_for, size = _hidden(head, "target_hidden_size"), _hidden(model)
        if made_for and size and made_for != size:
            detail = f"{head}: its hidden size is {made_for}, that of {model} is {size}"
            advice = "it belongs to another model: give its own with --draft-model"
            row = Row(name="head", status="unusable", detail=detail, advice=advice, stops=True)
            found.append(row)
    return found


def token_row(models: Iterable[str]) -> Row:
    """Whether Hugging Face's libraries will find a token; its value is nobody's business.

    Missing is one that any of `models` wants and that is not here already.
    """
    name, where = "Hugging Face token", _token()
    if where:
        return Row(name=name, status="ok", detail=f"from {where}")
    wanting = any(GATED.match(each) and _folder(each) is None for each in models)
    status: Literal["missing", "optional"] = "missing" if wanting else "optional"
    advice = "only gated models (meta-llama/...) want one: set HF_TOKEN"
    return Row(name=name, status=status, detail="none", advice=advice)


def gpu_rows(cards: Sequence[Gpu], models: Iterable[tuple[str, str | None]]) -> list[Row]:
    """The GPUs, and whether the largest of these (model, head) has room on each, if known."""
    if not cards:
        advice = "the engines' CPU builds, the simulated server and --url work without one"
        return [Row(name="GPU", status="missing", detail="none seen by NVML", advice=advice)]
    sizes = {model: _weights(model) + (_weights(head) if head else 0) for model, head in models}
    largest = max(sizes, key=lambda model: sizes[model], default=None)
    shown = visible(cards, os.environ.get("CUDA_VISIBLE_DEVICES"))
    room = sum(cards[index].total for index in shown) / GIB
    found = []
    for index, card in enumerate(cards):
        row = _gpu(index, card)
        if index not in shown:
            row = structs.replace(
                row, status="ok", advice="", detail=f"{row.detail}, hidden by CUDA_VISIBLE_DEVICES"
            )
        elif largest and card.total / GIB < sizes[largest]:
            advice = f"the weights of {largest} alone are {sizes[largest]:.1f} GiB"
            row = structs.replace(row, status="warning", advice=advice, stops=room < sizes[largest])
        found.append(row)
    return found


def _gpu(index: int, card: Gpu) -> Row:
    used, total = card.used / GIB, card.total / GIB
    busy = used > BUSY_GIB
    return Row(
        name=f"GPU {index}",
        status="warning" if busy else "ok",
        detail=f"{card.name}, {used:.1f} of {total:.1f} GiB used, driver {card.driver}",
        advice="another program holds memory: see nvidia-smi" if busy else "",
    )


def _absent(model: str) -> Row:
    row = Row(name="model", status="missing", detail=f"{model}: not in {cache()}")
    if not re.fullmatch(r"\w[\w.-]*/[\w.-]+", model):
        advice = "no such folder, and no repository's name"
        return structs.replace(row, detail=model, advice=advice, stops=True)
    if any(os.environ.get(key, "").upper() in ("1", "ON", "YES", "TRUE") for key in OFFLINE):
        advice = "HF_HUB_OFFLINE is set: fetch it first (hf download)"
        return structs.replace(row, advice=advice, stops=True)
    if GATED.match(model) and not _token():
        advice = f"gated: accept its licence at huggingface.co/{model}, then set HF_TOKEN"
        return structs.replace(row, advice=advice, stops=True)
    return structs.replace(row, advice="a first start fetches it, as does `hf download`")


def _folder(model: str) -> Path | None:
    """Where a model's files are: a folder of its own, or its newest snapshot in the cache."""
    if Path(model).is_dir():
        return Path(model)
    known = commit(model)
    folder = repository(model) / "snapshots" / (known or "none")
    return folder if os.access(folder, os.R_OK) else None


def _hidden(model: str | None, *names: str) -> int | None:
    """By its config.json, the first of `names` or the hidden size; null where that is not here."""
    folder = _folder(model) if model else None
    try:
        config = msgspec.json.decode((folder / "config.json").read_bytes()) if folder else {}
    except (OSError, msgspec.DecodeError):
        return None
    if not isinstance(config, dict):
        return None
    values = (config.get(name) for name in (*names, "hidden_size"))
    return next((each for each in values if isinstance(each, int)), None)


def _lacking(folder: Path) -> str | None:
    """How many of the files that an index names are not there: `1 of 4`; null for none."""
    for index in folder.glob("*.index.json"):
        try:
            named = set(msgspec.json.decode(index.read_bytes())["weight_map"].values())
        except (OSError, msgspec.DecodeError, KeyError, TypeError, AttributeError):
            continue
        gone = [each for each in named if not (folder / str(each)).is_file()]
        return f"{len(gone)} of {len(named)}" if gone else None
    return None if _files(folder) else "all"


def _files(folder: Path) -> list[Path]:
    """Its weights; a repository may have the same ones in both formats, engines take the first."""
    for pattern in ("*.safetensors", "*.bin"):
        files = [each for each in folder.glob(pattern) if each.is_file()]
        if files:
            return files
    return []


def _bytes(folder: Path) -> int:
    return sum(each.stat().st_size for each in _files(folder))


def _weights(model: str) -> float:
    """GiB; 0 where it is not known."""
    folder = _folder(model)
    if folder is None or _lacking(folder):
        return WEIGHTS_GIB.get(model, 0.0)
    return _bytes(folder) / GIB


def _token() -> str | None:
    """Where Hugging Face's libraries find a token."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if os.environ.get(name):
            return name
    path = at_home(os.environ.get("HF_TOKEN_PATH", home() / "token"))
    return str(path) if os.access(path, os.R_OK) else None
