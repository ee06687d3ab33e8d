"""The policy: a tiny embedded Llama or any Hugging Face causal LM, and its weights as numpy arrays.

Shapes: B rows, T tokens.
"""

import numpy as np
import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from runtime.config import ModelConfig
from runtime.environment import Environment
from runtime.tokenizer import HuggingFaceTokenizer, SymbolTokenizer, Tokenizer


def build_model(config: ModelConfig, *, seed: int, device: torch.device) -> tuple[PreTrainedModel, Tokenizer]:
    """The model in fp32 on `device`, with its tokenizer. Nothing is downloaded.

    It stays in eval mode for training too: with dropout, the importance ratio of an on-policy token would
    not be 1.
    """
    model: PreTrainedModel
    tokenizer: Tokenizer
    if config.path:
        model = AutoModelForCausalLM.from_pretrained(config.path, dtype=torch.float32, local_files_only=True)
        tokenizer = HuggingFaceTokenizer(AutoTokenizer.from_pretrained(config.path, local_files_only=True))
    else:
        tokenizer = SymbolTokenizer()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = LlamaForCausalLM(_embedded_config())
    module: nn.Module = model  # whose to() and eval() have types
    module.to(device).eval()
    return model, tokenizer


def _embedded_config() -> LlamaConfig:
    # 83,968 parameters; a 0.5 M model measured five times slower and no better on the default task.
    return LlamaConfig(
        vocab_size=SymbolTokenizer.vocabulary_size,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        initializer_range=0.05,
        tie_word_embeddings=True,
        pad_token_id=SymbolTokenizer.pad_id,
        bos_token_id=SymbolTokenizer.bos_id,
        eos_token_id=SymbolTokenizer.eos_id,
    )


def warm_start(model: PreTrainedModel, tokenizer: Tokenizer, environment: Environment) -> None:
    """Forty supervised steps on the environment's answers: sampled exact match of the default task about 0.2.

    From scratch the reward is too rare for a robust start. Deterministic: all randomness is the environment's.
    """
    steps, warmup_steps, batch_size, learning_rate = 40, 20, 64, 2e-3
    device = next(model.parameters()).device
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    for step in range(1, steps + 1):
        prompts = [prompt for _ in range(batch_size) if (prompt := environment.draw())]
        if not prompts:
            return  # a finite environment has ended
        questions = [tokenizer.encode(prompt.text) for prompt in prompts]
        answered = [[*tokenizer.encode(p.text + p.answer), tokenizer.eos_id] for p in prompts]
        token_ids, is_answer = right_pad(questions, answered, tokenizer.pad_id)
        logits = model(token_ids.to(device)).logits  # (B, T, V)
        targets = token_ids[:, 1:].to(device)  # (B, T-1)
        predicts_answer = is_answer[:, 1:].to(device)  # (B, T-1)
        loss = nn.functional.cross_entropy(logits[:, :-1][predicts_answer], targets[predicts_answer])
        optimizer.param_groups[0]["lr"] = learning_rate * min(1.0, step / warmup_steps)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def right_pad(
    prefixes: list[list[int]], sequences: list[list[int]], pad_id: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids (B, T), and (B, T) True where a token of the sequence lies beyond its prefix and is not padding.

    Padding on the right needs no attention mask in a causal model: no real token sees it.
    """
    width = max(map(len, sequences), default=0)
    token_ids = torch.full((len(sequences), width), pad_id)
    beyond_prefix = torch.zeros((len(sequences), width), dtype=torch.bool)
    for row, (prefix, sequence) in enumerate(zip(prefixes, sequences, strict=True)):
        token_ids[row, : len(sequence)] = torch.tensor(sequence)
        beyond_prefix[row, len(prefix) : len(sequence)] = True
    return token_ids, beyond_prefix


def autocast(device: torch.device) -> torch.autocast:
    """bf16 matrix products on CUDA; nothing elsewhere (bf16 is slower than fp32 on CPUs without AVX-512)."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda")


def export_arrays(model: PreTrainedModel) -> dict[str, np.ndarray]:
    """A copy of every parameter; a tied weight appears once. numpy has no bfloat16: its bits travel as uint16.

    numpy because Ray stores its arrays without pickling: ten to twenty times faster than torch tensors.
    """
    arrays = {}
    for name, parameter in model.named_parameters():
        tensor = parameter.detach().to("cpu", copy=True)
        arrays[name] = (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return arrays


@torch.no_grad()
def load_arrays(model: PreTrainedModel, arrays: dict[str, np.ndarray]) -> None:
    """Copy exported arrays into a model of the same configuration, tied weights included."""
    for name, parameter in model.named_parameters():
        # torch.tensor copies: arrays out of Ray's store are read-only, and from_numpy warns about those.
        tensor = torch.tensor(arrays[name])
        parameter.copy_(tensor.view(torch.bfloat16) if parameter.dtype == torch.bfloat16 else tensor)
