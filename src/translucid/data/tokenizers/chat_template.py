"""Chat templates: how the messages of a conversation become one prompt.

A template is a program in Jinja that came with a model, so it runs in Jinja's sandbox: it can read
the messages, but no file, module or attribute of Python objects. In the prompt, the special tokens
that the template writes are tokens. A message that contains the text of a special token is refused,
because it could end its own turn and speak for somebody else.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.core.untrusted_files import present, read_object, read_text
from translucid.data.tokenizers.tokenizer import Tokenizer

KEY = "chat_template"  # in the statistics of a bundle
GGUF = f"tokenizer.{KEY}"  # in the header of a GGUF file
FILE, CONFIG = "chat_template.jinja", "tokenizer_config.json"
LARGEST = 200_000  # characters of a template, and bytes of the file
MAX_CHARACTERS = 2_000_000  # characters of a prompt
ROLES = ("system", "developer", "user", "assistant", "tool")
NAMED = ("bos_token", "eos_token", "unk_token", "pad_token")  # special tokens that templates name


class ChatTemplate:
    """A chat template with the special tokens of its model."""

    def __init__(self, source: str, special: Mapping[str, str] | None = None) -> None:
        """special: texts of special tokens by name, such as eos_token."""
        from jinja2 import TemplateError
        from jinja2.ext import loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        if len(source) > LARGEST:
            raise InputError(
                f"the chat template has {len(source):,} characters; at most {LARGEST:,} are allowed"
            )
        self.source, self.special = source, dict(special or {})
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
        )
        environment.filters["tojson"] = _as_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = _now
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise InputError(f"the chat template cannot be read: {error}") from None

    @classmethod
    def find(cls, folder: Path) -> "ChatTemplate | None":
        """Read the template of a model folder; None if there is none."""
        source: object = None
        config = read_object(folder / CONFIG) if present(folder / CONFIG) else {}
        if present(folder / FILE):
            source = read_text(folder / FILE, LARGEST, "copy the file again")
        elif isinstance(config.get("chat_template"), list):  # several, by name
            named = [one for one in config["chat_template"] if isinstance(one, dict)]
            source = next((t.get("template") for t in named if t.get("name") == "default"), None)
        else:
            source = config.get("chat_template")
        if not isinstance(source, str):
            return None
        return cls(source, {name: text for name in NAMED if (text := _text(config.get(name)))})

    @classmethod
    def stored(cls, statistics: Mapping[str, Any]) -> "ChatTemplate | None":
        """The template among the statistics of a bundle."""
        kept = statistics.get(KEY)
        if not isinstance(kept, dict) or not isinstance(kept.get("source"), str):
            return None
        special = kept.get("special")
        texts = special.items() if isinstance(special, dict) else ()
        return cls(kept["source"], {str(name): str(text) for name, text in texts})

    def as_dict(self) -> dict[str, Any]:
        """The template as JSON values, for the statistics of a bundle."""
        return {"source": self.source, "special": self.special}

    def render(self, messages: Sequence[Mapping[str, Any]], *, begin: bool = True) -> str:
        """The prompt of a conversation. begin: let the assistant begin its answer."""
        from jinja2 import TemplateError

        for number, message in enumerate(messages):
            self._check(number, message)
        try:
            text = self._template.render(
                **self.special, messages=[dict(message) for message in messages],
                add_generation_prompt=begin, tools=None, documents=None,
            )  # fmt: skip
        except (TemplateError, ArithmeticError, LookupError, MemoryError, RecursionError, TypeError,
                ValueError) as error:  # fmt: skip
            raise InputError(f"messages: the model's chat template refuses them: {error}") from None
        if len(text) > MAX_CHARACTERS:
            raise InputError(f"messages: the prompt has more than {MAX_CHARACTERS:,} characters")
        return text

    def encode(
        self, messages: Sequence[Mapping[str, Any]], tokenizer: Tokenizer, *, begin: bool = True
    ) -> list[int]:
        """The token ids of a conversation."""
        forbidden = tokenizer.special_texts
        for number, message in enumerate(messages):
            content = str(message.get("content", ""))
            if forbidden_text := next((text for text in forbidden if text in content), None):
                raise InputError(
                    f"messages: message {number + 1} contains {forbidden_text!r}, the text "
                    "of a special token; remove it"
                )
        return tokenizer.encode_special(self.render(messages, begin=begin))

    def _check(self, number: int, message: Mapping[str, Any]) -> None:
        role, content = message.get("role"), message.get("content")
        if role not in ROLES:
            raise InputError(
                f"messages: message {number + 1} has role {str(role)[:100]!r}; must be one of "
                f"{', '.join(ROLES)}"
            )
        if not isinstance(content, str):
            raise InputError(f"messages: the content of message {number + 1} must be a text")


def _text(token: object) -> str:
    """The text of a special token in tokenizer_config.json."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else ""


def _as_json(value: Any, indent: int | None = None, **more: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: object) -> str:
    from jinja2 import TemplateError

    raise TemplateError(str(message)[:500])


def _now(pattern: object) -> str:
    from datetime import datetime

    return datetime.now().strftime(str(pattern)[:100])
