"""The rig's own tokenizer: a Unigram model with byte fallback, written as a tokenizer.json.

Ids fall into two ranges. English holds what is ASCII: its cycle is every pair of letters, with and
without a space before it. Chinese holds the rest: its cycle is common characters. Only tokens of a
cycle are generated, and each is plain complete text, so no engine holds text back. Single
characters and bytes make any other input tokenizable and enter the cycle of their range.
"""

from itertools import product
from string import ascii_lowercase, printable
from typing import Any

SPECIAL = ("<unk>", "<s>", "</s>")
CYCLE = 2 * len(ascii_lowercase) ** 2  # tokens of each language's cycle

PAIRS = ["".join(pair) for pair in product(ascii_lowercase, repeat=2)]
# GB 2312 level 1: the 3,755 characters that make up over 99% of modern text, in pinyin order.
_LEVEL_1 = [bytes(code).decode("gb2312") for code in product(range(0xB0, 0xD7), range(0xA1, 0xFF))]
_LEVEL_1 += [bytes((0xD7, low)).decode("gb2312") for low in range(0xA1, 0xFA)]
_PUNCTUATION = "，。、；：？！“”‘’（）《》【】—…·￥"
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]  # the name that byte fallback looks up

ENGLISH = [piece for pair in PAIRS for piece in (f" {pair}", pair)]
ENGLISH += [*printable, *_BYTES[:0x80], *SPECIAL]
CHINESE = [*_LEVEL_1, *_PUNCTUATION, *_BYTES[0x80:]]
PIECES = ENGLISH + CHINESE

# The last token of the prompt decides the walk: end in the user's last word, not in a full stop or
# a role marker that all prompts share.
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- set text = message['content'] -%}"
    "{%- set words = text.rstrip(' \\n\\t.,:;?!\"，。、；：？！”’）') or text -%}"
    "{{- words if loop.last else text + '\\n' -}}"
    "{%- endfor -%}"
)


def token_id(piece: str) -> int:
    """The id of a piece; ValueError if there is none."""
    return PIECES.index(piece)


def tokenizer_json() -> dict[str, Any]:
    """The tokenizer in the format of the `tokenizers` library. Equal scores: fewest pieces win."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": token_id(piece),
                "content": piece,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for piece in SPECIAL
        ],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {
            "type": "Unigram",
            "unk_id": token_id("<unk>"),
            "vocab": [[piece, -1.0] for piece in PIECES],
            "byte_fallback": True,
        },
    }


def tokenizer_config(max_len: int) -> dict[str, Any]:
    """The tokenizer_config.json, with the chat template."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "model_max_length": max_len,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
