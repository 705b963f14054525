"""A folder that stands in for EAGLE's clone and its libraries, to be put on PYTHONPATH."""

from pathlib import Path

FILES = {
    "torch.py": """
from tests.launchers.eagle_server.double import Torch

_torch = Torch()
tensor, manual_seed, bfloat16 = _torch.tensor, _torch.manual_seed, "a dtype"
""",
    "transformers/__init__.py": """
from tests.launchers.eagle_server.double import Tokenizer


class AutoTokenizer:
    @staticmethod
    def from_pretrained(model):
        return Tokenizer()
""",
    # As from 4.54 on: what EAGLE imports has another name.
    "transformers/utils.py": "class TransformersKwargs: ...",
    "eagle/__init__.py": "",
    "eagle/model/__init__.py": "",
    "eagle/model/cnets.py": """
from types import SimpleNamespace

NEEDED = {"embed_tokens.weight", "fc.weight", "midlayer.mlp.up_proj.weight", "norm.weight"}


class Model:
    def load_state_dict(self, weights, strict):
        assert not strict
        return SimpleNamespace(missing_keys=list(NEEDED - weights), unexpected_keys=[])
""",
    "eagle/model/ea_model.py": """
import torch
from transformers.utils import LossKwargs

from tests.launchers.eagle_server import double

from .cnets import NEEDED, Model

WEIGHTS = {
    "head": NEEDED - {"embed_tokens.weight"},
    "head-with-embedding": NEEDED,
    "head-of-another-layout": {"layers.0.fc.weight", "norm.weight"},
}


class EaModel(double.EaModel):
    @classmethod
    def from_pretrained(cls, *, base_model_path, ea_model_path, torch_dtype, **settings):
        if base_model_path == "missing":
            raise OSError("missing is not a local folder\\nand is not a valid model identifier")
        assert torch_dtype in ("auto", "a dtype")
        assert settings.pop("use_eagle3")
        assert settings.pop("low_cpu_mem_usage")
        assert settings.pop("device_map") in ("auto", "cpu")
        assert set(settings) == {"total_token", "depth", "top_k"}
        Model().load_state_dict(WEIGHTS[ea_model_path], strict=False)
        ea = cls("verify 海水", sizes=(1, 4), torch=torch._torch)
        ea.ea_layer.total_tokens = settings["total_token"] - 1
        return ea

    def eval(self):
        return self
""",
}


def write_clone(folder: Path, *leave_out: str) -> Path:
    """Write the stand-in, without the files whose paths begin with one of `leave_out`."""
    for name, text in FILES.items():
        if not name.startswith(leave_out or ("-",)):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return folder
