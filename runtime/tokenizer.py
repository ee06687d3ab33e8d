"""Text to token ids and back, for the embedded model and for Hugging Face models."""

from typing import TYPE_CHECKING, Protocol

from runtime.errors import RuntimeConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Tokenizer(Protocol):
    """What the engine, the learner and scoring need of a tokenizer."""

    pad_id: int
    eos_id: int

    def encode(self, text: str) -> list[int]:
        """Token ids of a prompt, begin token included where the model has one."""

    def decode(self, token_ids: list[int]) -> str:
        """Text of a response, special tokens left out."""


class SymbolTokenizer:
    """One token per character. Three special tokens and 24 characters: 27 symbols."""

    CHARACTERS = "0123456789+-*/=<>(),:?s "
    pad_id = 0
    bos_id = 1
    eos_id = 2
    vocabulary_size = 3 + len(CHARACTERS)

    def encode(self, text: str) -> list[int]:
        unknown = sorted(set(text) - set(self.CHARACTERS))
        if unknown:
            raise RuntimeConfigError(
                f"the embedded model knows the characters {self.CHARACTERS!r} only, got {''.join(unknown)!r} in "
                f"{text!r}; for other prompts give a Hugging Face directory with --model"
            )
        return [self.bos_id, *(3 + self.CHARACTERS.index(character) for character in text)]

    def decode(self, token_ids: list[int]) -> str:
        return "".join(self.CHARACTERS[token_id - 3] for token_id in token_ids if token_id >= 3)


class HuggingFaceTokenizer:
    """The tokenizer of a Hugging Face model directory. Raises RuntimeConfigError without an end token."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        eos_id, pad_id = tokenizer.eos_token_id, tokenizer.pad_token_id
        if not isinstance(eos_id, int):
            raise RuntimeConfigError(
                f"the tokenizer of {tokenizer.name_or_path!r} has no end token, so no response could stop; "
                "set eos_token in its tokenizer_config.json"
            )
        self._tokenizer = tokenizer
        self.eos_id = eos_id
        # Padding is always masked out, so any id serves a tokenizer that has none.
        self.pad_id = pad_id if isinstance(pad_id, int) else eos_id

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer(text)["input_ids"])

    def decode(self, token_ids: list[int]) -> str:
        return str(self._tokenizer.decode(token_ids, skip_special_tokens=True))
