"""The demo model's byte-level BPE tokenizer."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

END = "<|end|>"  # separates documents, so it is also what a text without context follows
PAD = "<|pad|>"
VOCABULARY = 4096


def train_tokenizer(
    texts: Iterable[str], vocabulary: int = VOCABULARY, max_length: int = 512
) -> PreTrainedTokenizerFast:
    """Train on `texts`; every byte is in the vocabulary, so any text round-trips.

    No bos token: lm-eval then starts an unconditional text with END, as training did.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=[END, PAD],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
    )
