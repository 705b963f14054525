import pytest

from bench_client.imports.systems import any_heading, method_of, server_name, system_heading


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        ("-\nvllm + nothing\n", "vllm + nothing"),
        ("## SGLang, EAGLE3 (topk=8)\nSome words.\n", "SGLang, EAGLE3 (topk=8)"),
        ("实验结果（Eagle-3的后端）\n============\n", "实验结果（Eagle-3的后端）"),
        ("普通后端的实验结果：\n\n", "普通后端的实验结果"),
        # Prose, code and log lines name engines too.
        ("感觉稍微比 vllm + nothing 好 1tps，这很不显著\n", None),
        ("python3 -m sglang.launch_server --model x\n", None),
        ("jamesliu1/sglang-EAGLE3-Llama-3.1-Instruct-8B\n", None),
        ("from vllm import LLM\n", None),
        ("INFO 11-30 15:06:34 vLLM API server version 0.24.0\n", None),
        ("a heading of something else\n", None),
    ],
)
def test_headings_that_name_a_system(text: str, heading: str | None) -> None:
    assert system_heading(text) == heading


def test_any_marked_heading_will_do_for_a_label() -> None:
    assert any_heading("### After the change\nwords, more words.\n") == "After the change"
    assert any_heading("words, more words.\n") is None


@pytest.mark.parametrize(
    ("label", "file", "method"),
    [
        ("sglang + eagle", "投机采样对应 eagle3", "EAGLE3"),
        ("sglang + eagle", "eagle2 and eagle-3", "EAGLE"),
        ("sglang + EAGLE-2", "eagle3", "EAGLE2"),
        ("vllm without eagle3", "eagle3", None),
        ("不使用 EAGLE3", "eagle3", None),
        ("vllm + nothing", "eagle3", None),
        ("vllm MTP", "", "MTP"),
        ("vllm + ngram", "", "NGRAM"),
        ("vllm without ngram", "", None),
        ("vLLM speculative", "", "speculative"),
        ("non-speculative", "", None),
        ("vllm 投机采样", "", "speculative"),
        ("无投机", "", None),
    ],
)
def test_method_of_a_heading(label: str, file: str, method: str | None) -> None:
    assert method_of(label, file) == method


def test_server_name_is_like_the_presets() -> None:
    assert server_name("transformers + eagle3", "vllm", "EAGLE3") == "transformers-eagle3"
    assert server_name("普通后端", "sglang", None) == "sglang"
