"""EaModel and its tokenizer: the only file that touches torch, transformers and EAGLE."""

import importlib
import random
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from .asks import Ask, BadRequestError, Sampling
from .settings import MAX_LENGTH, SLACK, Settings, StartError

OLDEST, NEWEST = (4, 53), (4, 57)  # of transformers
VERSIONS = "EAGLE's code runs with transformers {}.{} to {}.{}".format(*OLDEST, *NEWEST)


class Engine:
    """EaModel as a source of token blocks. One generation at a time: others would corrupt it."""

    def __init__(self, ea: Any, tokenizer: Any, torch: Any, settings: Settings) -> None:
        """`tokenizer` is another than EaModel's own, which loses its end token here.

        EaModel knows a single end token and keeps what follows it in a block: we end answers.
        """
        ea.tokenizer.eos_token = None  # setting eos_token_id to None raises
        self._ea = ea
        self._tokenizer = tokenizer
        self._torch = torch
        self.settings = settings
        self.memory: dict[str, float] = {}  # under the names of the client's `Memory`, once warm
        config = ea.base_model.config
        self.max_length = _max_length(settings.max_length, config.max_position_embeddings)
        if self.room < 1:
            least = settings.total_token + SLACK
            raise StartError(f"--max-length {self.max_length} is not above the {least} of the tree")
        generation = ea.base_model.generation_config
        self.stop = _stop_tokens(generation, tokenizer)
        self.defaults = _defaults(generation)

    @property
    def dtype(self) -> str:
        """The target's, such as bfloat16."""
        return str(self._ea.base_model.dtype).removeprefix("torch.")

    @property
    def room(self) -> int:
        """The most tokens that prompt and answer can have together."""
        return self.max_length - self.settings.total_token - SLACK

    def warm_up(self) -> None:
        """Allocate the KV cache, whose size the first call fixes, and compile the kernels."""
        prompt = self.prompt_ids(Ask(prompt="Hello"))
        with closing(self.blocks(prompt, Sampling(temperature=0.0), 16)) as blocks:
            for _ in islice(blocks, 3):
                pass
        self.memory = {
            "weights_gib": _gib(self._ea.base_model.parameters()),
            "draft_weights_gib": _gib(self._ea.ea_layer.parameters()),
            "kv_cache_gib": _gib(self._ea.past_key_values_data),
            "kv_cache_tokens": self.max_length,
        }

    def prompt_ids(self, ask: Ask) -> list[int]:
        """The prompt as tokens.

        Raises BadRequestError for messages that the chat template refuses, or unknown token ids.
        """
        if ask.messages is not None:
            return list(self._tokenizer.encode(self._chat_text(ask), add_special_tokens=False))
        if isinstance(ask.prompt, str):
            return list(self._tokenizer.encode(ask.prompt))
        size = self._ea.base_model.config.vocab_size
        strange = next((token for token in ask.prompt if not 0 <= token < size), None)
        if strange is not None:  # on a GPU it would end the process
            raise BadRequestError(f"token id {strange} is not below {size}")
        return ask.prompt

    def _chat_text(self, ask: Ask) -> str:
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    ask.messages, tokenize=False, add_generation_prompt=True, **ask.template
                )
            )
        except Exception as error:  # whatever a template raises
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise BadRequestError(
                f"the chat template does not take these messages: {reason}"
            ) from error

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of tokens, special ones left out."""
        text: str = self._tokenizer.decode(
            token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def blocks(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> Generator[list[int], None, None]:
        """The new tokens of each step: 1 + accepted drafts, or 1.

        EaModel goes on behind an end token, and until there are more than `max_tokens`: the
        caller closes it before.
        """
        if sampling.seed is not None:
            random.seed(sampling.seed)
            self._torch.manual_seed(sampling.seed)
        generate = self._ea.naive_generate if self.settings.plain else self._ea.ea_generate
        sequences = generate(
            self._torch.tensor([prompt], device=self._ea.base_model.device),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            max_new_tokens=max_tokens,
            max_length=self.max_length,
        )
        seen = len(prompt)
        with closing(sequences):
            for sequence in sequences:
                block = sequence[0, seen:].tolist()
                seen += len(block)
                yield block


def load(settings: Settings) -> Engine:
    """Load target, head and tokenizer. Raises StartError, or what the libraries raise."""
    settings.check()
    ea_model, heads = _import_eagle(settings.eagle_path)
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    dtype = "auto" if settings.dtype == "auto" else getattr(torch, settings.dtype)
    with _load_results(heads) as results:
        ea = ea_model.EaModel.from_pretrained(
            use_eagle3=True,
            base_model_path=settings.model,
            ea_model_path=settings.draft_model,
            total_token=settings.total_token,
            depth=settings.depth,
            top_k=settings.top_k,
            torch_dtype=dtype,
            device_map=settings.device,
            low_cpu_mem_usage=True,
        ).eval()
    for result in results:
        _check_head(settings.draft_model, result.missing_keys)
    return Engine(ea, transformers.AutoTokenizer.from_pretrained(settings.model), torch, settings)


def _import_eagle(path: Path | None) -> tuple[Any, Any]:
    if path:
        if not (path / "eagle" / "model" / "ea_model.py").is_file():
            raise StartError(f"{path} is no clone of EAGLE: it has no eagle/model/ea_model.py")
        sys.path.insert(0, str(path.resolve()))
    try:
        utils: Any = importlib.import_module("transformers.utils")
        if not hasattr(utils, "LossKwargs"):  # renamed in transformers 4.54
            utils.LossKwargs = utils.TransformersKwargs
        return (
            importlib.import_module("eagle.model.ea_model"),
            importlib.import_module("eagle.model.cnets"),
        )
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] == "eagle":
            raise StartError(
                "there is no EAGLE here: clone SafeAILab/EAGLE and name it by --eagle-path"
            ) from None
        raise StartError(f"EAGLE needs {error.name}: install it here; {VERSIONS}") from None
    except (ImportError, AttributeError) as error:
        raise StartError(f"EAGLE does not load ({error}): {VERSIONS}") from None


@contextmanager
def _load_results(heads: Any) -> Iterator[list[Any]]:
    """What each head's load_state_dict found missing: EaModel does not look at it."""
    results: list[Any] = []
    original = heads.Model.load_state_dict

    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        results.append(original(self, *args, **kwargs))
        return results[-1]

    heads.Model.load_state_dict = noted
    try:
        yield results
    finally:
        heads.Model.load_state_dict = original


def _check_head(name: str, missing: Sequence[str]) -> None:
    """Only the embedding, which is the target's, may be missing: EaModel accepts any file."""
    lost = sorted(set(missing) - {"embed_tokens.weight"})
    if lost:
        raise StartError(
            f"{name} is no EAGLE3 head in EAGLE's layout: {len(lost)} weights are missing"
            f" ({', '.join(lost[:3])}), and it would draft nonsense"
        )


def _gib(tensors: Iterable[Any]) -> float:
    return float(sum(tensor.nbytes for tensor in tensors)) / 2**30


def _max_length(asked: int | None, of_model: int) -> int:
    if asked is not None and asked > of_model:
        raise StartError(f"--max-length {asked} is above the model's own {of_model} positions")
    return min(MAX_LENGTH, of_model) if asked is None else asked


def _stop_tokens(generation: Any, tokenizer: Any) -> frozenset[int]:
    """Every token that ends an answer, as in vLLM and SGLang: chat models have several."""
    named = generation.eos_token_id
    several = named if isinstance(named, list) else [named]
    return frozenset(token for token in (*several, tokenizer.eos_token_id) if token is not None)


def _defaults(generation: Any) -> Sampling:
    """The model's own sampling, which vLLM and SGLang apply too where a request is silent."""
    own = generation.to_diff_dict()
    return Sampling(
        temperature=own.get("temperature", 1.0),
        top_p=own.get("top_p", 1.0),
        top_k=own.get("top_k", 0),
    )
