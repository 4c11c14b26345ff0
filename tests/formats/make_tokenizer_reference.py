#!/usr/bin/env python3
"""Writes tests/formats/data/tokenizer.json and tokenizer_cases.json: a small byte-level BPE and what the library
`tokenizers` makes of texts with it.

Run by hand, with tokenizers installed:  python3 tests/formats/make_tokenizer_reference.py
"""

import json
import pathlib

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

FOLDER = pathlib.Path(__file__).parent / "data"
CORPUS = [
    "The quick brown fox jumps over the lazy dog. It's what they're told: don't, I'll, we've, she'd, I'm.",
    "Everyone is permitted to copy and distribute verbatim copies of this license document.",
    "Der schnelle braune Fuchs springt über den faulen Hund; größer, schöner, süßer.",
    "素早い茶色の狐がのろまな犬を飛び越える。 快速的棕色狐狸跳过懒狗。",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. 12345 67890 3.14159 2026-11-22",
    "def f(x):\n    return x ** 2  # comment\n\n\n\tif x != 0:\n\t\tprint('hello')\n",
]
TEXTS = [
    "",
    " ",
    "   ",
    "a",
    "The license",
    " The  license   ends here.  ",
    "It's they're don't I'll we've she'd I'm IT'S 'tis 's",
    "''s 'll' x'd've",
    "tabs\tand\nlines\r\n\n\n  x\n \n y",
    "12345 67890, 3.14159; ²³ ½ Ⅷ ٣٤",
    "über größer naïve Ünïcödé ÀÉÎ",
    "快速的棕色狐狸 のろまな犬 한국어 ไทย हिन्दी",
    "Съешь же ещё этих",
    "emoji 🙂🙂 👩‍👩‍👧 flags 🇩🇪 x",
    "non-breaking\u00a0space em\u2003space ideographic\u3000space line\u2028sep\u0085nel",
    "<|endoftext|>begin<|endoftext|><|endoftext|>",
    "half <|endof text|> of it",
    "def f(x):\n    return x ** 2  # comment\n",
    "x" * 200,
    "aaaaaaaaaaaaaaaaaaaaaaaaab" * 3,
    "\u0000\u0001\u007f control",
    "e\u0301 combining, \u200bzero width\u200d, \ufeffmark",
]


def main():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS * 3, trainer)
    FOLDER.mkdir(exist_ok=True)
    tokenizer.save(str(FOLDER / "tokenizer.json"), pretty=False)
    cases = [{"text": text, "tokens": tokenizer.encode(text).ids} for text in TEXTS]
    (FOLDER / "tokenizer_cases.json").write_text(json.dumps(cases, ensure_ascii=False, indent=0) + "\n")


if __name__ == "__main__":
    main()
