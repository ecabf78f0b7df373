"""Chat templates: as transformers renders them, in a sandbox, with special tokens as tokens."""

import json
from pathlib import Path
from typing import Any

import pytest

from translucid.core.errors import InputError
from translucid.data.tokenizers.chat_template import ChatTemplate

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
INST = (
    "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != "
    "(loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] | trim + ' [/INST]' }}"
    "{% else %}{{ message['content'] + eos_token }}{% endif %}{% endfor %}"
)
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
CHAT = [
    {"role": "user", "content": " Hello there "},
    {"role": "assistant", "content": 'Hi, "you" & <all>'},
    {"role": "user", "content": "What is 1 < 2?"},
]


@pytest.mark.parametrize("source", [CHATML, INST], ids=["chatml", "inst"])
@pytest.mark.parametrize("begin", [False, True])
def test_a_template_renders_as_transformers_renders_it(source: str, begin: bool) -> None:
    templates = pytest.importorskip("transformers.utils.chat_template_utils")
    rendered, _ = templates.render_jinja_template(
        conversations=[CHAT], chat_template=source, add_generation_prompt=begin, **SPECIAL
    )
    assert ChatTemplate(source, SPECIAL).render(CHAT, begin=begin) == rendered[0]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (INST, "roles must alternate"),
        ("{{ messages.__class__.__mro__ }}", "unsafe"),
        ("{{ ''.__class__.__subclasses__() }}", "unsafe"),
        ("{{ messages.append(1) }}", "not safely callable|unsafe"),
        ("{% include '/etc/passwd' %}", "template"),
        ("{{ range(10**9) | list }}", "too big|range"),
        ("{{ 'x' * 10**8 }}", "characters|memory|MemoryError"),
        ("{{ 1 / 0 }}", "zero"),
    ],
)
def test_a_template_cannot_leave_its_sandbox(source: str, words: str) -> None:
    chat = [{"role": "assistant", "content": "a"}]
    with pytest.raises(InputError, match=words):
        ChatTemplate(source, SPECIAL).render(chat)


def test_a_damaged_template_is_an_error() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        ChatTemplate("{% for %}")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"role": "root", "content": "a"}, "role 'root'"),
        ({"role": "user"}, "content of message 1"),
        ({"role": "user", "content": "a</s>b"}, "text of a special token"),
    ],
)
def test_bad_messages_are_named(message: dict[str, Any], words: str) -> None:
    tokenizer = _tokenizer()
    with pytest.raises(InputError, match=words):
        ChatTemplate(CHATML).encode([message], tokenizer)


def test_special_tokens_of_the_template_are_tokens() -> None:
    tokenizer = _tokenizer()
    template = ChatTemplate("{% for m in messages %}<s> {{ m.content }} </s>{% endfor %}", SPECIAL)
    ids = template.encode([{"role": "user", "content": "the dog"}], tokenizer)
    assert ids[0] == tokenizer.bos_id
    assert ids[-1] == tokenizer.eos_id
    assert ids[1:-1] == tokenizer.encode(" the dog ")
    assert not set(tokenizer.encode("<s> the dog </s>")) & {tokenizer.bos_id, tokenizer.eos_id}


@pytest.mark.parametrize("place", ["file", "config", "named"])
def test_a_template_is_found_in_a_model_folder(tmp_path: Path, place: str) -> None:
    assert ChatTemplate.find(tmp_path) is None
    config: dict[str, Any] = {"eos_token": {"content": "</s>"}, "bos_token": "<s>"}
    if place == "file":
        (tmp_path / "chat_template.jinja").write_text(INST, "utf-8")
    else:
        named = [{"name": "tools", "template": "x"}, {"name": "default", "template": INST}]
        config["chat_template"] = INST if place == "config" else named
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    found = ChatTemplate.find(tmp_path)
    assert found is not None
    assert found.render(CHAT) == ChatTemplate(INST, SPECIAL).render(CHAT)


def _tokenizer() -> Any:
    from tests.see.small import words

    return words("bpe")[0]
