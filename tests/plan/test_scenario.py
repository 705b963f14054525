import json
from pathlib import Path

import pytest

from bench_client.plan.scenario import ScenarioError, load_scenario, shipped_names


def write(path: Path, *lines: object) -> str:
    path.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n")
    return str(path)


def test_a_jsonl_runs_in_order(tmp_path: Path) -> None:
    name = write(
        tmp_path / "mine.jsonl",
        {"prompt": "first"},
        {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]},
        {"prompt": "line\u2028separator", "id": "third", "max_tokens": 7},
    )
    scenario = load_scenario(name)
    assert scenario.name == "mine"
    assert [prompt.id for prompt in scenario.prompts] == ["prompt-0", "prompt-1", "third"]
    assert scenario.prompts[0].messages[0].content == "first"
    assert [message.role for message in scenario.prompts[1].messages] == ["system", "user"]
    assert scenario.prompts[2].messages[0].content == "line\u2028separator"
    assert scenario.prompts[2].max_tokens == 7
    assert scenario.warmup


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "no prompts"),
        ([{"prompt": "a", "messages": [{"role": "user", "content": "b"}]}], "either"),
        ([{"id": "x"}], "either"),
        ([{"prompt": "a", "id": "x"}, {"prompt": "b", "id": "x"}], "ids must differ"),
        ([{"prompt": "a", "maxtokens": 3}], "maxtokens"),
        ([{"extends": "gone"}], "gone"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(
    tmp_path: Path, lines: list[object], said: str
) -> None:
    with pytest.raises(ScenarioError, match=said):
        load_scenario(write(tmp_path / "bad.jsonl", *lines))


def test_a_broken_line_is_named_by_number(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"prompt": "a"}\n{"prompt": \n')
    with pytest.raises(ScenarioError, match=r"bad\.jsonl:2"):
        load_scenario(str(tmp_path / "bad.jsonl"))


@pytest.mark.parametrize("limit", [0, -5, 10**12, 1.5, True])
def test_a_token_limit_that_is_none_is_named_by_line(tmp_path: Path, limit: object) -> None:
    name = write(tmp_path / "p.jsonl", {"prompt": "a"}, {"prompt": "b", "max_tokens": limit})
    with pytest.raises(ScenarioError, match=r"p\.jsonl:2: .*max_tokens"):
        load_scenario(name)


@pytest.mark.parametrize(
    "line", ["max_tokens = 0", "max_tokens = -1", "temperature = nan", "temperature = inf"]
)
def test_settings_of_a_scenario_that_are_none(tmp_path: Path, line: str) -> None:
    write(tmp_path / "p.jsonl", {"prompt": "a"})
    (tmp_path / "s.toml").write_text(f'name = "s"\nprompts = "p.jsonl"\n{line}\n')
    with pytest.raises(ScenarioError, match=line.partition(" ")[0]):
        load_scenario(str(tmp_path / "s.toml"))


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "a"}\n', encoding="utf-8-sig")
    text = 'name = "s"\nprompts = "p.jsonl"\n'
    (tmp_path / "s.toml").write_text(text, encoding="utf-8-sig")
    for file in ("p.jsonl", "s.toml"):
        (prompt,) = load_scenario(str(tmp_path / file)).prompts
        assert prompt.messages[0].content == "a"


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="eleven-prompts"):
        load_scenario("twelve-prompts")
    with pytest.raises(ScenarioError, match="No such file"):
        load_scenario(str(tmp_path / "none.jsonl"))
    (tmp_path / "latin.jsonl").write_bytes(b'{"prompt": "\xe9"}\n')
    with pytest.raises(ScenarioError, match="latin"):
        load_scenario(str(tmp_path / "latin.jsonl"))


def test_a_file_name_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('name = "s"\nprompts = "\\u0000"\n')
    with pytest.raises(ScenarioError, match="cannot read the scenario file"):
        load_scenario(str(tmp_path / "s.toml"))


def test_a_chain_needs_its_place_for_the_answer(tmp_path: Path) -> None:
    write(tmp_path / "p.jsonl", {"prompt": "a"}, {"prompt": "no place"})
    (tmp_path / "s.toml").write_text('name = "s"\nprompts = "p.jsonl"\nchained = true\n')
    with pytest.raises(ScenarioError, match="previous_answer"):
        load_scenario(str(tmp_path / "s.toml"))


def test_a_line_may_extend_another_files(tmp_path: Path) -> None:
    write(tmp_path / "base.jsonl", {"prompt": "the task", "id": "a", "language": "en"})
    write(tmp_path / "p.jsonl", {"extends": "a"}, {"extends": "a", "prefix": "x", "id": "b"})
    (tmp_path / "s.toml").write_text(
        'name = "s"\nprompts = "p.jsonl"\nprompts_from = "base.jsonl"\n'
    )
    first, second = load_scenario(str(tmp_path / "s.toml")).prompts
    assert first.messages[0].content == "the task"
    assert second.messages[0].content == "x\n\nthe task"
    assert second.language == "en"


def test_the_shipped_ones_load() -> None:
    assert {"eleven-prompts", "serial-chain"} <= set(shipped_names())
    for name in shipped_names():
        assert load_scenario(name).prompts
