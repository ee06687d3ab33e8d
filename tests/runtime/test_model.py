import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer as RustTokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from runtime.config import EngineConfig, ModelConfig
from runtime.engine import Engine
from runtime.environment import load_environment
from runtime.errors import RuntimeConfigError
from runtime.evaluation import HELD_OUT_SEED, exact_match_greedy
from runtime.model import build_model, export_arrays, load_arrays, warm_start
from runtime.tokenizer import SymbolTokenizer
from runtime.types import Prompt, Ticket

CPU = torch.device("cpu")
WORDS = ["<pad>", "<eos>", "<unk>", "sort", "these", "now", "one", "two"]


def embedded(seed: int) -> PreTrainedModel:
    model, _ = build_model(ModelConfig(), seed=seed, device=CPU)
    return model


def logits(model: PreTrainedModel) -> torch.Tensor:
    with torch.no_grad():
        result: torch.Tensor = model(input_ids=torch.arange(3, 20)[None], use_cache=False).logits
    return result


def save_hugging_face_model(folder: Path, *, eos_token: str | None = "<eos>", tied: bool = True) -> None:
    rust = RustTokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    rust.pre_tokenizer = Whitespace()
    rust.save(str(folder / "tokenizer.json"))
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "<unk>",
        "eos_token": eos_token,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=32,
        tie_word_embeddings=tied,
        eos_token_id=1,
        pad_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


def test_the_embedded_model_has_83968_parameters_and_27_symbols() -> None:
    model = embedded(0)
    assert sum(parameter.numel() for parameter in model.parameters()) == 83_968
    assert SymbolTokenizer.vocabulary_size == 27


def test_a_seed_fixes_the_weights_and_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    one, same, other = (embedded(seed) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(logits(one), logits(same))
    assert not torch.allclose(logits(one), logits(other))


def test_symbols_survive_the_round_trip_and_special_tokens_do_not_show() -> None:
    tokenizer = SymbolTokenizer()
    token_ids = tokenizer.encode("s3120=")
    assert token_ids[0] == tokenizer.bos_id
    assert tokenizer.decode([*token_ids, tokenizer.eos_id, tokenizer.pad_id]) == "s3120="


def test_a_character_that_the_embedded_model_lacks_names_the_way_out() -> None:
    with pytest.raises(RuntimeConfigError, match=r"got 'Wh'.*--model"):
        SymbolTokenizer().encode("Wh=")


def test_loaded_arrays_make_an_identical_model_although_weights_are_tied() -> None:
    source, target = embedded(1), embedded(2)
    arrays = export_arrays(source)
    assert "lm_head.weight" not in arrays  # it is the embedding
    load_arrays(target, arrays)
    assert torch.equal(logits(source), logits(target))
    weights = dict(target.named_parameters(remove_duplicate=False))
    assert weights["lm_head.weight"] is weights["model.embed_tokens.weight"]


def test_exported_arrays_are_copies() -> None:
    model = embedded(1)
    arrays = export_arrays(model)
    before = {name: array.copy() for name, array in arrays.items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    assert all(np.array_equal(before[name], arrays[name]) for name in arrays)


def test_read_only_arrays_as_ray_hands_them_out_load() -> None:
    source, target = embedded(1), embedded(2)
    arrays = export_arrays(source)
    for array in arrays.values():
        array.setflags(write=False)
    load_arrays(target, arrays)
    with torch.no_grad():
        next(target.parameters()).add_(1.0)  # the model owns what it loaded
    assert np.array_equal(
        arrays["model.embed_tokens.weight"], export_arrays(source)["model.embed_tokens.weight"]
    )


def test_bfloat16_weights_travel_bit_for_bit() -> None:
    source = embedded(1).bfloat16()
    target = embedded(2).bfloat16()
    load_arrays(target, export_arrays(source))
    for (_, one), (_, other) in zip(source.named_parameters(), target.named_parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("tied", [True, False])
def test_any_hugging_face_directory_generates(tmp_path: Path, tied: bool) -> None:
    save_hugging_face_model(tmp_path, tied=tied)
    model, tokenizer = build_model(ModelConfig(path=str(tmp_path)), seed=0, device=CPU)
    assert tokenizer.encode("sort these") == [3, 4]
    assert tokenizer.decode([6, 7, tokenizer.eos_id]) == "one two"
    load_arrays(model, export_arrays(model))
    engine = Engine(model, tokenizer, EngineConfig(max_new_tokens=4), seed=0, device=CPU)
    engine.admit(Ticket(ticket_id=1, prompt=Prompt(prompt_id="1", text="sort these now", answer="")), 3)
    samples = [sample for _ in range(4) for sample in engine.step()]
    assert [len(sample.responses) for sample in samples] == [3]


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeConfigError, match=r"has no config\.json"):
        ModelConfig(path=str(tmp_path))
    with pytest.raises(RuntimeConfigError, match=r"has no config\.json"):
        ModelConfig(path=str(tmp_path / "absent"))


def test_a_tokenizer_without_an_end_token_is_refused(tmp_path: Path) -> None:
    save_hugging_face_model(tmp_path, eos_token=None)
    with pytest.raises(RuntimeConfigError, match="has no end token"):
        build_model(ModelConfig(path=str(tmp_path)), seed=0, device=CPU)


def test_the_warm_start_makes_the_first_rewards_and_repeats_exactly() -> None:
    def warmed() -> PreTrainedModel:
        model = embedded(1)
        warm_start(model, SymbolTokenizer(), load_environment("runtime.sort_task:SortTask", seed=1))
        return model

    def greedy(model: PreTrainedModel) -> float:
        held_out = load_environment("runtime.sort_task:SortTask", seed=HELD_OUT_SEED)
        return exact_match_greedy(model, SymbolTokenizer(), held_out, max_new_tokens=7, prompt_count=64)

    model = warmed()
    assert greedy(embedded(1)) < 0.05 < greedy(model)
    assert torch.equal(logits(model), logits(warmed()))
