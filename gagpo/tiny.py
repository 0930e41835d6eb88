"""The offline default policy: a small transformer with word-level tokens, made from nothing."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from gagpo.config import PolicyConfig

PAD, END, UNKNOWN = "<pad>", "<end>", "<unk>"
PROMPT_WORDS = ("goal", "did", "see", "act", ":", ";", "*")
# The architecture's default of 0.02 is meant for widths of thousands; at a width of a hundred
# it leaves the model at a uniform guess for hundreds of updates.
INITIALIZER_RANGE = 0.1


def tiny_tokenizer(words: Iterable[str]) -> PreTrainedTokenizerFast:
    """One token for each lower-case word or punctuation mark of `words`; others are unknown.

    The ids follow the sorted vocabulary, so equal words give equal tokenizers.
    """
    split = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(r"[^\w\s]"), "isolated")]
    )
    pieces = {piece for word in (*PROMPT_WORDS, *words) for piece, _ in split.pre_tokenize_str(word.lower())}
    vocabulary = {token: i for i, token in enumerate((PAD, END, UNKNOWN, *sorted(pieces)))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = split
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=END, unk_token=UNKNOWN
    )


def tiny_model(tokenizer: PreTrainedTokenizerFast, config: PolicyConfig, seed: int) -> PreTrainedModel:
    """A Llama decoder with random weights that depend on `seed` alone.

    (Not Qwen2: transformers loads that architecture's folders with Qwen's own tokenizer only.)
    """
    if config.hidden_size % (2 * config.num_heads):
        raise ValueError(
            f"hidden_size: {config.hidden_size} with num_heads {config.num_heads}; expected a "
            "multiple of twice the heads (rotary positions need an even head width)"
        )
    architecture = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=config.hidden_size,
        intermediate_size=3 * config.hidden_size,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        num_key_value_heads=config.num_heads,
        max_position_embeddings=4096,
        initializer_range=INITIALIZER_RANGE,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(architecture)
