#!/usr/bin/env python3
"""Writes tests/formats/data/wordpiece.json, wordpiece_vocab.txt and wordpiece_cases.json: a small WordPiece and what the
library `tokenizers` makes of texts with it.

Run by hand, with tokenizers installed:  python3 tests/formats/make_wordpiece_reference.py
"""

import json
import pathlib
import unicodedata

from make_tokenizer_reference import CORPUS, TEXTS
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

FOLDER = pathlib.Path(__file__).parent / "data"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
MORE = [
    "Hidden [MASK] here[MASK]and [mask] [CLS]x[SEP] [UNK]",
    "Unseen ☃ snowman, über-größer naïve Ünïcödé ÀÉÎ İstanbul ΣΊΣΥΦΟΣ ẞ Ⅷ ǅ",
    "한국어 quick [quick] (brown)fox! $3.50 a_b `x` ~y^z",
    "x" * 100 + " " + "x" * 101,
    "zero\u200bwidth soft\u00adhyphen bom\ufeff \u0001control \u0378unassigned \ue000private \ufffd",
    "punctuation ‘quotes’ “double” … – — « » ¿? ¡! 、。 ・ ־ ՝",
    "𝐁old 𐐀 Deseret 𠀀 rare 豈 compat",
    "e\u0301 o\u0308\u0323 combining \u1f82 several",
]


def tokens_of(tokenizer, texts):
    return [{"text": text, "tokens": tokenizer.encode(text, add_special_tokens=False).ids} for text in texts]


def main():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    trainer = trainers.WordPieceTrainer(vocab_size=400, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(CORPUS * 3, trainer)
    # All characters too, in every form in which a normalizer leaves them, so that few tokens are unknown.
    texts = TEXTS + MORE
    vocabulary = tokenizer.get_vocab()
    signs = "".join(texts) + "".join(texts).lower()
    for sign in sorted(set(signs + unicodedata.normalize("NFD", signs)) - set("☃\x00 \t\r\n")):
        for piece in (sign, "##" + sign):
            vocabulary.setdefault(piece, len(vocabulary))
    tokenizer.model = models.WordPiece(vocabulary, unk_token="[UNK]")
    tokenizer.save(str(FOLDER / "wordpiece.json"), pretty=False)
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    (FOLDER / "wordpiece_vocab.txt").write_text("".join(token + "\n" for token, _ in vocabulary))
    cases = []
    for lower, strip, clean, chinese in ((True, None, True, True), (False, None, True, True), (True, False, True, True),
                                         (False, True, False, False)):
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=strip, clean_text=clean,
                                                          handle_chinese_chars=chinese)
        cases.append({"normalizer": json.loads(tokenizer.to_str())["normalizer"],
                      "cases": tokens_of(tokenizer, texts)})
    tokenizer.normalizer = normalizers.BertNormalizer()
    decoded = [{"tokens": case["tokens"], "text": tokenizer.decode(case["tokens"], skip_special_tokens=False)}
               for case in cases[0]["cases"]]
    (FOLDER / "wordpiece_cases.json").write_text(json.dumps({"encoded": cases, "decoded": decoded}) + "\n")


main()
