"""Special tokens by what they are for: which roles there are, and how tokenizers name them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from anyformer.describe import Value

END_OF_TEXT = "<|endoftext|>"
"""The token that separates documents, in every tokenizer that is made here."""
UNKNOWN = "[UNK]"
"""What tokenizers of words give for a word that they lack: made from text, so no special token."""
RoleName = Literal[
    "cls", "sep", "mask", "pad", "start", "system", "user", "assistant", "turn_end", "regular", "sequential", "extreme"
]
"""What a special token is for: the class token before a text, the end of a part, a hidden token, filling, what a decoder
starts from, in chats the three speakers and the end of what one says, and UL2's three modes of denoising."""


@dataclass(frozen=True)
class Role:
    """`own`: the token's name in a tokenizer made here; `key`: where a `tokenizer_config.json` names it, if it can; `names`:
    what published tokenizers call it."""

    own: str
    key: str = ""
    names: tuple[str, ...] = ()


ROLES: Mapping[RoleName, Role] = {
    "cls": Role("[CLS]", "cls_token", ("<cls>", "<s>")),
    "sep": Role("[SEP]", "sep_token", ("<sep>", "</s>")),
    "mask": Role("[MASK]", "mask_token", ("<mask>", "<|mask|>", "<|mdm_mask|>")),
    "pad": Role("[PAD]", "pad_token", ("<pad>", "<|pad|>", "<|padding|>", "<|finetune_right_pad_id|>")),
    "start": Role("<|start|>", "bos_token", ("<s>", "<bos>", "[BOS]", "<|begin_of_text|>", "<|startoftext|>")),
    "system": Role("<|system|>"),
    "user": Role("<|user|>"),
    "assistant": Role("<|assistant|>"),
    "turn_end": Role("<|turn_end|>", "", ("<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<|eot|>")),
    "regular": Role("[R]"),
    "sequential": Role("[S]"),
    "extreme": Role("[X]"),
}
assert set(ROLES) == set(get_args(RoleName))
FRAMING: tuple[RoleName, ...] = ("cls", "sep")
"""The roles of the tokens that a tokenizer made here puts before a text and behind it, if it has both."""
SPEAKING: tuple[RoleName, ...] = ("system", "user", "assistant", "turn_end")
"""The roles that a chat needs."""
CHAT_TEMPLATE = (
    "{% for turn in messages %}{{ '<|' + turn['role'] + '|>' }}"
    "{% if turn['role'] == 'assistant' %}{% generation %}{{ turn['content'] + '<|turn_end|>' }}{% endgeneration %}"
    "{% else %}{{ turn['content'] + '<|turn_end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
"""How a chat is written for a tokenizer made here, in Jinja: `<|user|>` text `<|turn_end|>` `<|assistant|>` text
`<|turn_end|>`."""
SENTINEL_NAMES = ("<extra_id_{}>", "<sentinel_{}>", "<|reserved_special_token_{}|>")
"""How sentinels are called, the first by T5 and by tokenizers made here."""


class Specials(Value):
    """The special tokens that an objective needs, beside the one that ends a text."""

    roles: tuple[RoleName, ...] = ()
    """What tokens are needed for: `cls`, `sep`, `mask`, `pad`, `start`, `system`, `user`, `assistant`, `turn_end`,
    `regular`, `sequential`, `extreme`."""
    sentinels: Annotated[int, Field(ge=0, le=4096)] = 0
    """How many sentinels (`<extra_id_0>`, ...), which stand for spans that are left out (T5)."""
    frames: bool = False
    """Whether a tokenizer made here puts `[CLS]` before a text and `[SEP]` behind it, for which it needs both; one from a file
    has a frame of its own, or none."""
    rows: bool = False
    """Whether what the tokenizer puts around a text is put around each row by the objective, so that documents of running text
    stay bare."""

    @model_validator(mode="after")
    def _each_once(self) -> Specials:
        if len(set(self.roles)) < len(self.roles):
            raise ValueError(f"roles = {list(self.roles)} names a role twice; name it once")
        return self

    def __or__(self, other: Specials) -> Specials:
        """The tokens that either needs."""
        roles = tuple(dict.fromkeys((*self.roles, *other.roles)))
        return Specials(
            roles=roles,
            sentinels=max(self.sentinels, other.sentinels),
            frames=self.frames or other.frames,
            rows=self.rows or other.rows,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The tokens of a tokenizer made here, the one that ends a text first."""
        return (END_OF_TEXT, *(ROLES[role].own for role in self.roles), *map(SENTINEL_NAMES[0].format, range(self.sentinels)))

    def config(self, unknown: str | None = None) -> dict[str, Any]:
        """The table of a `tokenizer_config.json`, from which transformers knows the tokens of each role."""
        keyed = {ROLES[role].key: ROLES[role].own for role in self.roles if ROLES[role].key}
        chat = {"chat_template": CHAT_TEMPLATE} if set(SPEAKING) <= set(self.roles) else {}
        return plain_config(END_OF_TEXT) | ({"unk_token": unknown} if unknown else {}) | keyed | chat


def plain_config(end: str | None) -> dict[str, Any]:
    """The table of a tokenizer of which no more is known than the token that ends a text."""
    config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    return config if end is None else config | {"eos_token": end}


def named(config: Mapping[str, Any], key: str) -> str | None:
    """The token that a `tokenizer_config.json` names under `key`."""
    token = config.get(key)
    content = token.get("content") if isinstance(token, Mapping) else token
    return content if isinstance(content, str) else None


def candidates(role: RoleName, config: Mapping[str, Any]) -> tuple[str, ...]:
    """The tokens that may have a role, the likeliest first: what the configuration says, our name, the usual names."""
    known = ROLES[role]
    first = named(config, known.key) if known.key else None
    return tuple(dict.fromkeys(name for name in (first, known.own, *known.names) if name))


def by_role(config: Mapping[str, Any], tokens: Collection[str]) -> dict[RoleName, str]:
    """Which of `tokens` has which role."""
    found = {role: next((name for name in candidates(role, config) if name in tokens), None) for role in ROLES}
    return {role: name for role, name in found.items() if name is not None}
