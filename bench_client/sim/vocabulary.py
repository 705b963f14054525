"""One vocabulary for both languages: what the simulated model says, and how it counts a prompt."""

import re
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from random import Random
from typing import Literal
from zlib import crc32

Language = Literal["en", "zh"]

TAPE_LENGTH = 8192  # tokens before a text repeats itself

_EN_WORDS = """
the a one each this that every of in for with on at from between under over and but while when
because model token draft target step cache batch request prompt answer server client kernel layer
head sequence length memory bandwidth weight matrix attention context window sample reader writer
problem method result reason figure measure second moment system process question example idea
simple small large fast slow early late first last next whole single common careful exact rough
plain useful likely steady quiet open clear new old long short is are was can may must will should
makes takes gives keeps holds finds shows reads writes waits runs checks accepts rejects guesses
verifies measures compares explains depends follows begins ends grows shrinks matters works helps
then now often rarely always never again together apart instead therefore however thus also only
more less most least enough about almost nearly well better two three four five many few some
light water river mountain city road house garden tree stone wind rain morning evening letter
"""
_ZH_WORDS = """
我们 他们 这个 那个 一个 每个 模型 词元 草稿 目标 步骤 缓存 批次 请求 提示 回答
服务器 客户端 内核 序列 长度 内存 带宽 权重 矩阵 注意力 上下文 窗口 采样 问题 方法
结果 原因 数字 测量 时间 系统 过程 例子 想法 简单 较小 较大 很快 较慢 首先 最后
其次 整体 单独 常见 仔细 准确 大致 有用 可能 稳定 清楚 新的 旧的 长的 短的 是 有
可以 应该 必须 需要 得到 给出 保持 发现 说明 读取 写入 等待 运行 检查 接受 拒绝
猜测 验证 比较 解释 取决于 跟随 开始 结束 增长 减少 重要 工作 帮助 然后 现在 经常
很少 总是 从不 再次 一起 分开 因此 但是 所以 也 只 更 最 足够 关于 几乎 两个
三个 四个 许多 一些 在 和 与 对 从 把 光 水 河流 山 城市 道路 房子 花园 树
石头 风 雨 早晨 晚上 信 学习 推理 速度 显存 投机 并发 串行
"""
_EN = tuple(f" {word}" for word in _EN_WORDS.split())
_ZH = tuple(_ZH_WORDS.split())

TOKENS: tuple[str, ...] = (*_EN, ",", ".", *_ZH, "，", "。")
"""The text of each token by its id. Each is complete: joined texts are the decoded answer."""

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_PIECE = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+|[^\w\s]")
_WORD = re.compile(rf"[^\W{_CJK}]+")
_CJK_CHARACTER = re.compile(rf"[{_CJK}]")


@dataclass(frozen=True)
class Tape:
    """TAPE_LENGTH tokens of text, twice over, so that a slice never has to wrap around."""

    texts: tuple[bytes, ...]
    """UTF-8 as it stands inside a JSON string; no token needs escaping."""
    ids: tuple[bytes, ...]
    """Token ids in decimal."""


@cache
def tape(language: Language) -> Tape:
    """The text that all answers in a language are pieces of."""
    rng = Random(language)
    words, marks = (_ZH, ("，", "。")) if language == "zh" else (_EN, (",", "."))
    texts = rng.choices(words, k=TAPE_LENGTH)
    at, mark = 0, cycle(marks)
    while (at := at + rng.randint(4, 9)) < TAPE_LENGTH:
        texts[at] = next(mark)
    number = {text: b"%d" % i for i, text in enumerate(TOKENS)}
    return Tape(tuple(t.encode() for t in texts) * 2, tuple(number[t] for t in texts) * 2)


def tokenize(text: str) -> list[str]:
    """Split a prompt: a CJK character, a word and a punctuation mark are one token each."""
    return _PIECE.findall(text)


def prompt_token_id(piece: str) -> int:
    """A stable id for a token of a prompt, outside the range of those that answers use."""
    return 1000 + crc32(piece.encode()) % 150_000


def language_of(text: str) -> Language:
    """Chinese if at least half of the text's tokens, punctuation aside, are CJK characters."""
    if text.isascii():
        return "en"
    chinese = len(_CJK_CHARACTER.findall(text))
    return "zh" if chinese and chinese >= len(_WORD.findall(text)) else "en"
