from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from runtime.config import EngineConfig
from runtime.engine import Engine
from runtime.errors import RuntimeConfigError
from runtime.model import export_arrays, load_arrays
from runtime.tokenizer import SymbolTokenizer
from runtime.types import Prompt, Response, Sample, Ticket

CPU = torch.device("cpu")
TOKENIZER = SymbolTokenizer()
SHAPE: dict[str, Any] = {
    "vocab_size": 27,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,  # far from uniform, so that a wrong prefix shows
}
FAMILIES: dict[str, Callable[[], PreTrainedModel]] = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE)),
    "gpt2": lambda: GPT2LMHeadModel(
        GPT2Config(vocab_size=27, n_embd=32, n_layer=2, n_head=4, n_positions=64, initializer_range=0.3)
    ),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**SHAPE, num_key_value_heads=2, sliding_window=5)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SHAPE, num_key_value_heads=2, head_dim=8)),
}


def model_of(family: str, seed: int) -> PreTrainedModel:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = FAMILIES[family]()
    model.train(False)
    return model


def engine_of(
    model: PreTrainedModel,
    *,
    seed: int = 0,
    capacity: int = 64,
    max_new_tokens: int = 12,
    temperature: float = 1.0,
) -> Engine:
    config = EngineConfig(capacity_responses=capacity, max_new_tokens=max_new_tokens, temperature=temperature)
    return Engine(model, TOKENIZER, config, seed=seed, device=CPU)


def ticket(text: str, ticket_id: int = 1) -> Ticket:
    return Ticket(ticket_id=ticket_id, prompt=Prompt(prompt_id=str(ticket_id), text=text, answer=""))


def run(engine: Engine) -> list[Sample]:
    samples = []
    while engine.decoding:
        samples += engine.step()
    return samples


@torch.no_grad()
def teacher_forced(model: PreTrainedModel, sample: Sample, response: Response) -> list[float]:
    """Log-probs of the response's tokens by one plain forward pass: no cache, no padding, no batch."""
    token_ids = torch.tensor(sample.prompt_token_ids + response.token_ids)
    log_softmax = torch.log_softmax(model(input_ids=token_ids[None], use_cache=False).logits[0], dim=-1)
    first = len(sample.prompt_token_ids)
    return [float(log_softmax[t - 1, token_ids[t]]) for t in range(first, len(token_ids))]


def assert_log_probs_are_those_of_their_versions(
    samples: list[Sample], weights: dict[int, dict[str, np.ndarray]], model: PreTrainedModel
) -> None:
    for version, arrays in weights.items():
        load_arrays(model, arrays)
        for sample in samples:
            for response in sample.responses:
                expected = teacher_forced(model, sample, response)
                for mine, theirs, decoded_by in zip(
                    response.log_probs, expected, response.versions, strict=True
                ):
                    assert decoded_by != version or mine == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_log_probs_equal_a_teacher_forced_pass(family: str) -> None:
    model = model_of(family, 1)
    engine = engine_of(model)
    engine.admit(ticket("s12="), 8)
    engine.admit(ticket("s403122="), 8)
    samples = run(engine)
    assert sum(len(sample.responses) for sample in samples) == 16
    for sample in samples:
        for response in sample.responses:
            expected = teacher_forced(model, sample, response)
            assert response.log_probs == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_response_interrupted_by_new_weights_keeps_both_runs(family: str) -> None:
    old, new = export_arrays(model_of(family, 1)), export_arrays(model_of(family, 2))
    engine = engine_of(model_of(family, 1))
    engine.admit(ticket("s312="), 6)
    engine.admit(ticket("s0=", 2), 6)
    for _ in range(4):
        assert engine.step() == []
    engine.load(new, param_version=5)
    samples = run(engine)
    versions = [response.versions for sample in samples for response in sample.responses]
    assert [0] * 4 + [5] * 8 in versions
    assert all(run == [0] * len(run[:4]) + [5] * len(run[4:]) for run in versions)
    assert_log_probs_are_those_of_their_versions(samples, {0: old, 5: new}, model_of(family, 1))


@settings(max_examples=20, deadline=None)
@given(
    actions=st.lists(
        st.one_of(
            st.tuples(st.just("admit"), st.text(alphabet="0123s=", max_size=9), st.integers(1, 5)),
            st.just(("step", "", 0)),
            st.just(("load", "", 0)),
        ),
        max_size=25,
    )
)
def test_any_order_of_admissions_steps_and_loads_is_exact(
    actions: list[tuple[str, str, int]],
) -> None:
    weights = {0: export_arrays(model_of("llama", 0))}
    engine = engine_of(model_of("llama", 0), capacity=200)
    admitted, samples = 0, []
    for action, text, group_size in actions:
        if action == "step":
            samples += engine.step()
        elif action == "load":
            version = len(weights)
            weights[version] = export_arrays(model_of("llama", version))
            engine.load(weights[version], version)
        else:
            admitted += 1
            engine.admit(ticket(text, admitted), group_size)
    samples += run(engine)
    assert sorted(sample.ticket.ticket_id for sample in samples) == list(range(1, admitted + 1))
    assert_log_probs_are_those_of_their_versions(samples, weights, model_of("llama", 0))


def test_new_groups_join_while_others_decode_and_finished_rows_leave() -> None:
    model = model_of("llama", 1)
    shapes: list[tuple[int, ...]] = []
    model.register_forward_pre_hook(
        lambda _, __, kwargs: shapes.append(tuple(kwargs["attention_mask"].shape)), with_kwargs=True
    )
    engine = engine_of(model, max_new_tokens=3, temperature=0.0)
    engine.admit(ticket("s1234="), 2)  # 7 tokens with <bos>
    engine.step()
    engine.admit(ticket("s=", 2), 1)  # 3 tokens
    assert [len(engine.step()) for _ in range(3)] == [0, 1, 1]
    # Prefill and first token; a prefill of its own, both together; the long rows gone, their columns too.
    assert shapes == [(1, 7), (2, 8), (1, 3), (3, 9), (1, 5)]


def test_capacity_counts_responses_from_admission_to_their_end() -> None:
    engine = engine_of(model_of("llama", 1), capacity=5, max_new_tokens=1)
    engine.admit(ticket("s1="), 3)
    assert (engine.decoding, engine.free) == (3, 2)
    with pytest.raises(RuntimeError, match="needs 3 places, 2 of 5 are free"):
        engine.admit(ticket("s1=", 2), 3)
    assert len(engine.step()) == 1
    assert (engine.decoding, engine.free) == (0, 5)
    assert engine.step() == []


def test_a_response_ends_at_the_end_token_or_at_the_length() -> None:
    engine = engine_of(model_of("llama", 3), max_new_tokens=9)
    engine.admit(ticket("s12="), 64)
    (sample,) = run(engine)
    assert {response.finish_reason for response in sample.responses} == {"stop", "length"}
    for response in sample.responses:
        ended = response.token_ids.index(TOKENIZER.eos_id) + 1 if response.finish_reason == "stop" else 9
        assert len(response.token_ids) == len(response.log_probs) == len(response.versions) == ended
    assert [response.index for response in sample.responses] == list(range(64))


def test_a_seed_fixes_the_tokens_whatever_the_global_generator_does() -> None:
    def tokens(seed: int) -> list[list[int]]:
        torch.rand(1)
        engine = engine_of(model_of("llama", 1), seed=seed)
        engine.admit(ticket("s12="), 8)
        (sample,) = run(engine)
        return [response.token_ids for response in sample.responses]

    assert tokens(1) == tokens(1) != tokens(2)


def test_temperature_changes_the_choice_but_not_the_log_prob() -> None:
    model = model_of("llama", 1)
    greedy, hot = (engine_of(model, temperature=temperature) for temperature in (0.0, 5.0))
    samples = []
    for engine in (greedy, hot):
        engine.admit(ticket("s12="), 8)
        samples += run(engine)
    assert len({tuple(response.token_ids) for response in samples[0].responses}) == 1
    assert len({tuple(response.token_ids) for response in samples[1].responses}) > 1
    assert_log_probs_are_those_of_their_versions(samples, {0: export_arrays(model)}, model)


@pytest.mark.parametrize("setting", [{"capacity_responses": 0}, {"max_new_tokens": 0}, {"temperature": -0.1}])
def test_a_setting_out_of_range_is_refused(setting: dict[str, Any]) -> None:
    (name,) = setting
    with pytest.raises(RuntimeConfigError, match=name):
        EngineConfig(**setting)
